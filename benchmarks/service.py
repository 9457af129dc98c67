"""The service under load: dashboard users and writers at once, and pages with 1,000 tables.

The service is a process of its own, as `lakeward serve` starts it. Each user opens one page after
another with a second between them; each writer appends over the REST API without pause.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import lakeward as lw
from benchmarks.data import SCHEMA, rows
from benchmarks.result import Claim, Quantity, Result, Series, Settings
from benchmarks.scratch import fresh

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

USERS, WRITERS = 50, 8
ROWS = 100
TABLES = 1000
PAGE_SECONDS = 0.2
P99_SECONDS = 1.0
PAGES = (
    "/",
    "/transactions",
    "/audit",
    "/jobs",
    "/search?q=t00",
    "/tables/load.t0",
    "/tables/load.t0/rows",
    "/tables/load.t0/schema",
    "/tables/load.t0/layout",
)


def run(settings: Settings) -> Result:
    """Load the service, then read pages one at a time beside 1,000 tables."""
    seconds, tables = settings.choose(300, 15), settings.choose(TABLES, 100)
    place = fresh(settings.scratch / "service")
    with lw.open(place / "lake") as lake:
        for number in range(tables):
            lake.create(f"many.t{number:04d}", SCHEMA)
        for number in range(WRITERS):
            lake.create(f"load.t{number}", SCHEMA)
        tokens = [lake.create_token(role="writer").secret for _ in range(USERS + WRITERS)]
    with _served(place / "lake") as address:
        alone = asyncio.run(_one_at_a_time(address, tokens[0], settings.choose(20, 3)))
        pages, appends = asyncio.run(_load(address, tokens, float(seconds)))
    with lw.open(place / "lake") as lake:
        counts = [lake.table(f"load.t{n}").totals().rows for n in range(WRITERS)]
        healthy = lake.doctor().healthy
    if sum(c or 0 for c in counts) != ROWS * len(appends) or not healthy:
        message = "rows were lost, or the lake is not healthy"
        raise RuntimeError(message)
    loaded, written = Series("page, under load", pages), Series("append, under load", appends)
    slowest = max(alone, key=lambda one: one.median)
    return Result(
        "service",
        f"{USERS} dashboard users and {WRITERS} writers for {seconds} s; pages of {tables} tables",
        [loaded, written, *alone],
        [
            _claim("pages under load, p99", loaded.p99, P99_SECONDS),
            _claim(f"slowest page beside {tables} tables", slowest.median, PAGE_SECONDS),
        ],
        [
            f"{len(pages) / seconds:.0f} pages, {len(appends) / seconds:.0f} appends a second",
            "No request failed.",
        ],
    )


def _claim(what: str, measured: float, most: float) -> Claim:
    return Claim(what, Quantity(measured), f"≤ {most:g} s", measured <= most)


@contextmanager
def _served(directory: Path) -> Generator[str]:
    command = [sys.executable, "-m", "lakeward", "--lake", str(directory)]
    options = ["serve", "--port", "0", "--anonymous", "none", "--json"]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield json.loads(server.stdout.readline())["address"]
        finally:
            server.terminate()


async def _one_at_a_time(address: str, token: str, times: int) -> list[Series]:
    import httpx

    found = []
    async with httpx.AsyncClient(base_url=address, headers=_headers(token)) as client:
        for page in (*PAGES, "/health", "/lineage"):
            await _page(client, page)
            spent = [await _page(client, page) for _ in range(times)]
            found.append(Series(f"{page}, alone", spent))
            # Below the rate that one caller may have.
            await asyncio.sleep(0.1)
    return found


async def _load(address: str, tokens: list[str], seconds: float) -> tuple[list[float], list[float]]:
    import httpx

    pages: list[float] = []
    appends: list[float] = []
    until = perf_counter() + seconds
    sink = pa.BufferOutputStream()
    data = rows(ROWS)
    with pa.ipc.new_stream(sink, data.schema) as writer:
        writer.write_table(data)
    body = sink.getvalue().to_pybytes()

    async def look(number: int) -> None:
        async with httpx.AsyncClient(base_url=address, headers=_headers(tokens[number])) as client:
            await asyncio.sleep(number / USERS)
            while perf_counter() < until:
                pages.append(await _page(client, PAGES[len(pages) % len(PAGES)]))
                await asyncio.sleep(1.0)

    async def write(number: int) -> None:
        headers = _headers(tokens[USERS + number])
        headers["content-type"] = "application/vnd.apache.arrow.stream"
        async with httpx.AsyncClient(base_url=address, headers=headers, timeout=60) as client:
            while perf_counter() < until:
                began = perf_counter()
                answer = await client.post(f"/api/v1/tables/load.t{number}/rows", content=body)
                answer.raise_for_status()
                appends.append(perf_counter() - began)

    await asyncio.gather(*map(look, range(USERS)), *map(write, range(WRITERS)))
    return pages, appends


async def _page(client: Any, page: str) -> float:
    began = perf_counter()
    answer = await client.get(page, headers={"accept": "text/html"}, timeout=60)
    answer.raise_for_status()
    return perf_counter() - began


def _headers(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}
