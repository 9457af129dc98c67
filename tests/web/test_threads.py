"""Changes wait in threads of their own: probes, pages and other reads go on meanwhile."""

from __future__ import annotations

import asyncio
import inspect
import threading
from contextlib import suppress

import httpx
import pytest
from anyio.to_thread import run_sync

from lakeward.lake.lake import Lake
from lakeward.lake.rest_catalog import RestCatalog
from lakeward.model.roles import Role
from lakeward.web.app import routes
from lakeward.web.settings import Settings
from lakeward.web.threads import CHANGES_AT_ONCE
from tests.support.service import Service, every_route
from tests.web.test_access import READING

_PROBES = ("/healthz", "/readyz")


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/api/v1/tables/sales.orders", Lake),
        ("/iceberg/v1/namespaces/sales/tables/totals", RestCatalog),
    ],
)
def test_reads_go_on_while_many_changes_wait(
    path: str, kind: type, shared: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end, begun = threading.Event(), threading.Semaphore(0)

    def wait(*_: object) -> None:
        begun.release()
        may_end.wait(60)

    monkeypatch.setattr(kind, "drop", wait)

    async def run() -> list[int]:
        async with _client(shared) as client:
            changes = [asyncio.create_task(client.delete(path)) for _ in range(45)]
            for _ in range(CHANGES_AT_ONCE):
                while not begun.acquire(blocking=False):
                    await asyncio.sleep(0.001)
            read = asyncio.create_task(client.get("/api/v1/tables/sales.orders"))
            await asyncio.wait([read], timeout=20)
            is_read = read.done()
            may_end.set()
            await asyncio.gather(*changes)
            assert is_read
            return [task.result().status_code for task in (read, *changes)]

    assert set(asyncio.run(run())) <= {200, 204}


def test_probes_need_no_thread_of_those_for_reads(shared: Service) -> None:
    may_end = threading.Event()

    async def run() -> None:
        async with _client(shared) as client:
            reads = [asyncio.create_task(run_sync(may_end.wait, 60)) for _ in range(45)]
            await asyncio.sleep(0)
            found = []
            with suppress(TimeoutError):
                async with asyncio.timeout(20):
                    found = [(await client.get(path)).status_code for path in _PROBES]
            may_end.set()
            await asyncio.gather(*reads)
            assert found == [200, 200]

    asyncio.run(run())


def test_no_change_runs_in_a_thread_for_reads(shared: Service) -> None:
    app = routes(shared.lake, "lake", shared.settings)
    in_threads_for_reads = {
        path
        for method, path, endpoint in every_route(app)
        if method not in ("GET", "HEAD") and not inspect.iscoroutinefunction(endpoint)
    }
    assert in_threads_for_reads == {*READING, "/logout"}


def _client(service: Service) -> httpx.AsyncClient:
    """A client without a network, so that the requests and the service have one event loop."""
    app = routes(service.lake, "lake", Settings(anonymous=Role.ADMIN))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")
