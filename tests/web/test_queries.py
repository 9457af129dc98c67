"""Queries and changed rows over HTTP: over open tables only, and within limits."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.web.queries import Queries
from tests.support.s3 import S3Server
from tests.support.service import ARROW, Service, orders, stream

SQL = "/api/v1/sql"


def test_a_query_is_answered_as_json_and_as_arrow(shared: Service) -> None:
    client = shared.as_("reader")
    query = "SELECT region, count(*) AS n FROM sales.orders WHERE id < :most GROUP BY 1 ORDER BY 1"
    body = {"query": query, "params": {"most": 5}}

    shown = client.post(SQL, json=body)
    streamed = client.post(SQL, json=body, headers={"accept": ARROW})

    wanted = [{"region": "eu", "n": 3}, {"region": "us", "n": 1}]
    assert shown.status_code == 200, shown.text
    assert shown.json()["rows"] == wanted
    assert [c["name"] for c in shown.json()["schema"]] == ["region", "n"]
    assert pa.ipc.open_stream(streamed.content).read_all().to_pylist() == wanted
    both = "SELECT * FROM sales.orders o JOIN sales.totals t ON o.region = t.region"
    assert len(client.post(SQL, json={"query": both}).json()["rows"]) == 3
    some = client.post(SQL, json={"query": "SELECT id FROM sales.orders", "limit": 2}).json()
    assert (len(some["rows"]), some["more"]) == (2, True)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM gold.secret_plans",
        "SELECT * FROM sales.orders WHERE id IN (SELECT id FROM gold.secret_plans)",
        "WITH x AS (SELECT * FROM gold.secret_plans) SELECT * FROM x",
        "SELECT * FROM gold.secret_plans VERSION AS OF 0",
        'SELECT * FROM "gold"."secret_plans"',
        "SELECT * FROM GOLD.SECRET_PLANS",
        "SELECT * FROM information_schema.tables",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_parquet('x.parquet')",
        "DROP TABLE sales.orders",
        "COPY sales.orders TO '/tmp/x'",
        "SELECT * FROM sales.orders; DROP TABLE sales.orders",
        "SELECT nonsense FROM sales.orders",
        "SELEC",
        "",
    ],
)
def test_queries_reach_nothing_else(shared: Service, query: str) -> None:
    client = shared.as_("reader", tables="sales.*")

    answer = client.post(SQL, json={"query": query})

    assert answer.status_code in (400, 404, 422), answer.text
    assert "root:" not in answer.text
    assert shared.lake.table("sales.orders").version == 2


def test_a_query_that_never_ends_is_ended(serve: Callable[..., Service], shared: Service) -> None:
    client = serve(shared.lake, anonymous=None, query_seconds=3.0).as_("reader")
    many = ", ".join(f"sales.orders t{n}" for n in range(30))
    # Of all tables: a condition of two would be evaluated before the joins, and keep no row.
    total = " + ".join(f"t{n}.id" for n in range(30))
    began = time.monotonic()

    answer = client.post(SQL, json={"query": f"SELECT count(*) FROM {many} WHERE {total} < 0"})

    assert answer.status_code == 400, answer.text
    assert "more time or memory" in answer.text
    assert time.monotonic() - began < 30
    assert client.get("/api/v1/tables").status_code == 200


def test_a_query_that_needs_all_memory_is_ended(
    serve: Callable[..., Service], shared: Service
) -> None:
    client = serve(shared.lake, anonymous=None, query_memory=2 << 30).as_("reader")
    query = (
        "SELECT array_agg(repeat('x', 100000) || CAST(t0.id + t1.id + t2.id + t3.id AS VARCHAR))"
        " FROM sales.orders t0, sales.orders t1, sales.orders t2, sales.orders t3,"
        " sales.orders t4, sales.orders t5"
    )

    answer = client.post(SQL, json={"query": query})

    assert answer.status_code in (400, 422), answer.text
    assert client.get("/api/v1/tables").status_code == 200


LATE = "SELECT id, CAST(region AS BIGINT) AS n FROM sales.late"
"""A query that fails at the last row of `sales.late`."""


def test_an_error_at_a_late_row_is_not_the_end_of_the_rows(own: Service) -> None:
    client = own.as_("reader")
    _late_rows(own, 400_000)

    pieces, broken = _received(client, LATE)

    assert broken
    assert len(pieces) > 10_000
    with pytest.raises((pa.ArrowInvalid, OSError)):
        pa.ipc.open_stream(pieces).read_all()
    whole, broken = _received(client, "SELECT id FROM sales.late")
    assert not broken
    assert pa.ipc.open_stream(whole).read_all().num_rows == 400_000


@pytest.mark.parametrize(("count", "accept"), [(9_000, "*/*"), (10, ARROW)])
def test_an_error_before_the_answer_begins_has_a_status(
    own: Service, count: int, accept: str
) -> None:
    _late_rows(own, count)
    body = {"query": LATE, "limit": 10_000}

    answer = own.as_("reader").post(SQL, json=body, headers={"accept": accept})

    assert answer.status_code == 400, answer.text[:200]
    assert "Cannot cast string 'x'" in answer.text


KILLED = """
import os, signal
from pyarrow import ipc
made = ipc.new_stream
class Writer:
    def __init__(self, sink, schema):
        self.writer, self.count = made(sink, schema), 0
    def write_batch(self, batch):
        if self.count == AFTER:
            os.kill(os.getpid(), signal.SIGKILL)
        self.count += 1
        self.writer.write_batch(batch)
    def close(self):
        self.writer.close()
        if AFTER < 0:
            os.kill(os.getpid(), signal.SIGKILL)
    def __enter__(self):
        return self
    def __exit__(self, *_):
        self.close()
ipc.new_stream = Writer
"""
"""Kills the process of a query after so many batches, or after the end of the stream if -1."""


@pytest.mark.parametrize("after", [0, 1, -1])
def test_a_killed_query_is_not_the_end_of_the_rows(
    own: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    client = own.as_("reader")
    _late_rows(own, 20_000)
    query = "SELECT id FROM sales.late"
    (tmp_path / "sitecustomize.py").write_text(KILLED.replace("AFTER", str(after)))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    shown = client.post(SQL, json={"query": query + " LIMIT 9000", "limit": 10_000})
    pieces, broken = _received(client, query)

    assert shown.status_code == 400, shown.text[:200]
    assert "more time or memory" in shown.text
    if after == 0:
        assert (b"more time or memory" in pieces, broken) == (True, False)
    else:
        assert broken
        with pytest.raises((pa.ArrowInvalid, OSError)):
            pa.ipc.open_stream(pieces).read_all()


def _late_rows(service: Service, count: int) -> None:
    """Create `sales.late`, whose last row has a region that is not a number."""
    service.lake.create("sales.late", "id int64, region string")
    regions = ["1"] * (count - 1) + ["x"]
    service.lake.table("sales.late").append(pa.table({"id": range(count), "region": regions}))


def _received(client: httpx.Client, query: str) -> tuple[bytes, bool]:
    """Return the bytes of a response as Arrow, and whether the connection broke before its end."""
    pieces: list[bytes] = []
    with client.stream("POST", SQL, json={"query": query}, headers={"accept": ARROW}) as response:
        try:
            pieces.extend(response.iter_raw())
        except httpx.RemoteProtocolError:
            return b"".join(pieces), True
    return b"".join(pieces), False


def test_a_query_has_the_storage_options_of_the_lake(
    serve: Callable[..., Service], bucket: str, s3_server: S3Server, tmp_path: Path
) -> None:
    options = s3_server.options()
    with lw.open(tmp_path, warehouse=f"s3://{bucket}", storage_options=options) as lake:
        lake.create("t", "id int64").append([{"id": 7}])

        answer = serve(lake).client().post(SQL, json={"query": "SELECT id FROM t"})

    assert answer.status_code == 200, answer.text
    assert answer.json()["rows"] == [{"id": 7}]


def test_only_some_queries_run_at_once(
    serve: Callable[..., Service], shared: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = serve(shared.lake, anonymous=None, queries=1).as_("reader")
    reading = {"query": "SELECT * FROM sales.orders"}
    begun, go_on = threading.Event(), threading.Event()
    started = Queries._process

    @contextmanager
    def held(self: Queries, asked: dict[str, Any], free: Callable[[], None]) -> Iterator[Any]:
        begun.set()
        assert go_on.wait(10)
        with started(self, asked, free) as process:
            yield process

    monkeypatch.setattr(Queries, "_process", held)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.post, SQL, json=reading)
        assert begun.wait(30)
        second = client.post(SQL, json=reading)
        go_on.set()

        assert second.status_code == 503
        assert first.result().status_code == 200
    assert client.post(SQL, json=reading).status_code == 200


@pytest.mark.parametrize("way", ["breaks off", "stops reading"])
def test_a_client_that_does_not_read_on_keeps_no_place(
    serve: Callable[..., Service], shared: Service, request: pytest.FixtureRequest, way: str
) -> None:
    gc.disable()
    request.addfinalizer(gc.enable)
    seconds = 60.0 if way == "breaks off" else 3.0
    service = serve(shared.lake, anonymous=None, queries=1, query_seconds=seconds)
    client = service.as_("reader")
    long = {"query": "SELECT value, repeat('x', 1000) AS s FROM generate_series(1, 200000)"}
    with client.stream("POST", SQL, json=long, headers={"accept": ARROW}) as answer:
        next(answer.iter_raw(100))
        if way == "stops reading":
            assert _becomes_free(client)
    assert _becomes_free(client)


def _becomes_free(client: httpx.Client) -> bool:
    """Whether another query can run, within some seconds."""
    end = time.monotonic() + 25
    while time.monotonic() < end:
        if client.post(SQL, json={"query": "SELECT 1 AS one"}).status_code == 200:
            return True
    return False


def test_changed_rows_of_a_table(shared: Service) -> None:
    client = shared.as_("reader", tables="sales.*")
    path = "/api/v1/tables/sales.orders/changes"

    shown = client.get(path, params={"since": 2}).json()
    streamed = client.get(path, params={"since": 1, "where": "id > 2"}, headers={"accept": ARROW})

    assert [(r["id"], r["_change_type"]) for r in shown["rows"]] == [(4, "insert"), (5, "insert")]
    assert pa.ipc.open_stream(streamed.content).read_all()["id"].to_pylist() == [3, 4, 5]
    assert client.get(path, params={"since": 99}).status_code == 404
    assert client.get(path).status_code == 400
    other = "/api/v1/tables/gold.secret_plans/changes"
    assert client.get(other, params={"since": 0}).status_code == 404


def test_transactions_of_all_tables_in_one_order(own: Service) -> None:
    every, some = own.as_("reader"), own.as_("reader", tables="gold.*")
    own.lake.table("gold.secret_plans").append([{"id": 1}])

    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        query = {"limit": "2", **({} if cursor is None else {"cursor": cursor})}
        page = every.get("/api/v1/changes", params=query).json()
        found += page["transactions"]
        cursor = page["next"]
        if cursor is None:
            break

    assert [t["position"] for t in found] == sorted(t["position"] for t in found)
    assert {"sales.orders": 1, "sales.totals": 1} in [t["versions"] for t in found]
    seen = some.get("/api/v1/changes").json()["transactions"]
    assert {name for t in seen for name in t["versions"]} == {"gold.secret_plans"}
    assert some.get("/api/v1/changes", params={"table": "sales.orders"}).status_code == 404


def test_statistics_versions_cuts_quality_and_levels(own: Service) -> None:
    own.lake.set_policy("sales.orders", {"expectations": {"few": {"measure": "rows", "max": 3}}})
    own.lake.table("sales.orders").append(orders(6))
    own.lake.table("sales.orders").quality()
    own.lake.set_service_level(
        "fresh", {"objective": "freshness", "table": "sales.orders", "max": "1h", "target": 0.9}
    )
    client, other = own.as_("admin"), own.as_("reader", tables="gold.*")

    get = client.get
    assert get("/api/v1/tables/sales.orders/statistics").json()["rows"] == 6
    assert len(get("/api/v1/tables/sales.orders/versions").json()["versions"]) == 4
    assert get("/api/v1/snapshot").json()["versions"]["sales.orders"] == 3
    (quality,) = get("/api/v1/quality").json()["tables"]
    assert [m["passed"] for m in quality["measurements"]] == [False]
    assert [one["name"] for one in get("/api/v1/sla").json()["service_levels"]] == ["fresh"]
    assert get("/api/v1/audit/verify").status_code == 200
    assert other.get("/api/v1/quality").json() == {"tables": []}
    assert other.get("/api/v1/sla").json() == {"service_levels": []}
    assert set(other.get("/api/v1/snapshot").json()["versions"]) == {"gold.secret_plans"}


def test_tables_are_renamed_and_brought_back(own: Service) -> None:
    client = own.as_("admin", tables="sales.*")

    renamed = client.post("/api/v1/tables/sales.orders/rename", json={"name": "sales.new"})
    outside = client.post("/api/v1/tables/sales.new/rename", json={"name": "gold.new"})
    client.delete("/api/v1/tables/sales.new")
    back = client.post("/api/v1/tables/sales.new/undrop")

    assert (renamed.status_code, outside.status_code, back.status_code) == (200, 404, 200)
    assert own.lake.table("sales.new").count() == 5
    rows = stream(orders(9))
    headers = {"content-type": ARROW}
    assert client.post("/api/v1/tables/sales.new/rows", content=rows, headers=headers).is_success
