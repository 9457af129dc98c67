"""A service in a thread of the test, on a real port, and clients with tokens of every role."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Self

import httpx
import pyarrow as pa
import uvicorn

import lakeward as lw
from lakeward.model.roles import Role
from lakeward.web.access import Need, need_of
from lakeward.web.app import application, routes
from lakeward.web.serving import _options
from lakeward.web.settings import Settings

ARROW = "application/vnd.apache.arrow.stream"
PARQUET = "application/vnd.apache.parquet"


class Service:
    """A running service.

    Args:
        lake: The lake that it serves.
        **settings: Settings of the service.
    """

    def __init__(self, lake: lw.Lake, **settings: Any) -> None:
        self.lake = lake
        # Tests show many tokens from one address.
        limits = {"strangers_rate": 1e6, "strangers_burst": 1e6}
        self.settings = Settings(port=0, **{**limits, **settings})
        app = application(
            lake, target_of(lake), self.settings, stopping=lambda: self._server.should_exit
        )
        self._server = uvicorn.Server(uvicorn.Config(app, port=0, **_options()))
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._clients: list[httpx.Client] = []

    def __enter__(self) -> Self:
        self._thread.start()
        deadline = time.monotonic() + 30
        while not self._server.started and time.monotonic() < deadline:
            time.sleep(0.01)
        assert self._server.started
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients:
            client.close()
        self._server.should_exit = True
        self._thread.join(30)

    @property
    def url(self) -> str:
        """Where it listens."""
        (server,) = self._server.servers
        return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    def client(self, secret: str | None = None, **options: Any) -> httpx.Client:
        """A client that shows a token, or none."""
        headers = dict(options.pop("headers", {}))
        if secret is not None:
            headers["authorization"] = f"Bearer {secret}"
        client = httpx.Client(base_url=self.url, headers=headers, timeout=60, **options)
        self._clients.append(client)
        return client

    def as_(self, role: str, tables: str = "*", name: str | None = None) -> httpx.Client:
        """A client with a new token of a role."""
        token = self.lake.create_token(name, role=Role(role), tables=tables)
        return self.client(token.secret)


def target_of(lake: lw.Lake) -> str:
    """The directory of a lake, as a user names it."""
    return str(Path(lake.label).parent) if lake.label.endswith(".db") else lake.label


def made_lake(directory: Path) -> lw.Lake:
    """A lake with two tables of a transaction over both formats, and a third of another team."""
    lake = lw.open(directory, actor="tester")
    lake.create(
        "sales.orders",
        "id int64 not null, region string, amount float64",
        partition_by=["region"],
        constraints={"positive": "amount > 0"},
    )
    lake.create("sales.totals", "region string, amount float64", format="iceberg")
    lake.create("gold.secret_plans", "id int64")
    with lake.transaction(message="first") as tx:
        tx.append("sales.orders", orders(1, 2, 3))
        tx.append("sales.totals", pa.table({"region": ["eu"], "amount": [6.0]}))
    with lake.transaction() as tx:
        tx.append("sales.orders", orders(4, 5, region="us"))
    return lake


def orders(*ids: int, region: str = "eu") -> pa.Table:
    """Rows for `sales.orders`."""
    return pa.table(
        {"id": list(ids), "region": [region] * len(ids), "amount": [float(i) for i in ids]}
    )


def stream(rows: pa.Table) -> bytes:
    """Rows as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue().to_pybytes())


_VALUES: Final = {
    "table": "sales.orders",
    "transaction_id": "none-such",
    "name": "none-such",
    "namespace": "sales",
    "iceberg_table": "totals",
}


def every_route(source: Any) -> Iterator[tuple[str, str, Any]]:
    """The method, path and endpoint of every route, of included routers too."""
    for route in source.routes:
        below = getattr(route, "original_router", None)
        if below is not None:
            yield from every_route(below)
        elif hasattr(route, "endpoint") and hasattr(route, "methods"):
            for method in sorted(route.methods):
                yield method, route.path, route.endpoint
        else:
            message = f"a route of a kind that this test does not know: {route!r}"
            raise AssertionError(message)


def listed(service: Service) -> list[tuple[str, str, Need | None]]:
    app = routes(service.lake, "lake", service.settings)
    return [(method, path, need_of(endpoint)) for method, path, endpoint in every_route(app)]


def asked(client: httpx.Client, method: str, path: str) -> httpx.Response:
    filled = re.sub(r"\{(\w+)(:\w+)?\}", lambda m: _VALUES.get(m[1], "none"), path)
    return client.request(method, filled, json=None if method in ("GET", "HEAD") else {})
