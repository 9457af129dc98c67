"""R1 for other engines: the service killed at any step of a commit over two tables, answers lost.

The client sends the commit again with the same key, to a service that lives: after that both tables
have its rows once, whether the first one was ratified or not.
"""

from __future__ import annotations

import signal
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

import lakeward as lw
from lakeward.model import steps
from tests.support import processes
from tests.support.rest import catalog_of, created, staged
from tests.support.service import ARROW, Service, stream
from tests.support.sizes import sizes

pytestmark = [pytest.mark.crash, pytest.mark.slow]

TABLES = ("pair.one", "pair.two")
COMMIT = "/iceberg/v1/transactions/commit"
_OCCURRENCES = 2
_PER_LAKE = 40


@sizes("kills", short=8, full=1000)
def test_a_killed_service_commits_both_tables_or_none_and_once(tmp_path: Path, kills: int) -> None:
    hits: Counter[str] = Counter()
    ratified, done = 0, 0
    while done < kills:
        directory = tmp_path / f"lake{done}"
        with (
            lw.open(directory) as lake,
            Service(lake, anonymous=None, rate=1e6, burst=1e6) as alive,
        ):
            for name in TABLES:
                lake.create(name, "n int64", format="iceberg")
            reached = steps_of_a_commit(alive)
            places = [(s, n) for n in range(1, _OCCURRENCES + 1) for s in dict.fromkeys(reached)]
            places = from_both_ends([(s, n) for s, n in places if reached.count(s) >= n])
            for number in range(1, min(_PER_LAKE, kills - done) + 1):
                step, occurrence = places[(done + number) % len(places)]
                key, body = f"kill-{done + number:06d}", changes(alive, number)
                secret = lake.create_token(role="writer").secret
                worker = processes.start(serve_until_killed, str(directory), step, occurrence)
                address = worker.hear()
                with pytest.raises(httpx.TransportError):
                    send(address, secret, key, body)
                worker.finish()
                assert worker.killed, (step, occurrence)
                hits[step] += 1
                before = rows_of(lake)
                assert before[0] == before[1], (step, occurrence)
                ratified += number in before[0]

                answer = send(alive.url, secret, key, body)

                assert answer.status_code == 204, (step, occurrence, answer.text)
                wanted = list(range(number + 1))
                assert rows_of(lake) == [wanted, wanted], (step, occurrence)
                assert published(lake) == [wanted, wanted], (step, occurrence)
                versions = [lake.table(name).history(limit=1)[0] for name in TABLES]
                assert {v.transaction_id for v in versions} == {key}
            assert lake.doctor().healthy
            done += number
    print(f"{done} kills, {ratified} after ratification: {dict(hits)}")
    assert 0 < ratified < done


@sizes("kills", short=3, full=100)
def test_a_killed_service_creates_a_table_beside_a_commit_or_does_neither(
    tmp_path: Path, kills: int
) -> None:
    ratified = 0
    with lw.open(tmp_path) as lake, Service(lake, anonymous=None, rate=1e6, burst=1e6) as alive:
        old = lake.create("pair.old", "n int64", format="iceberg")
        secret = lake.create_token("etl", role="writer").secret
        reached = steps_of(alive, creation(alive, 0))
        assert {"iceberg.prepared", "ratify.inserted", "ratify.committed"} <= {*reached}
        places = from_both_ends([(step, 1) for step in dict.fromkeys(reached)])
        for number in range(1, kills + 1):
            step, occurrence = places[number % len(places)]
            key, body = f"make-{number:06d}", creation(alive, number)
            worker = processes.start(serve_until_killed, str(tmp_path), step, occurrence)
            address = worker.hear()
            with pytest.raises(httpx.TransportError):
                send(address, secret, key, body)
            worker.finish()
            assert worker.killed, step
            is_made = f"pair.new{number}" in [table.name for table in lake.tables()]
            assert is_made == (number in old.to_arrow()["n"].to_pylist()), step
            ratified += is_made

            answer = send(alive.url, secret, key, body)

            assert answer.status_code == 204, (step, answer.text)
            made = lake.table(f"pair.new{number}")
            assert made.to_arrow()["n"].to_pylist() == [number], step
            assert sorted(old.to_arrow()["n"].to_pylist()) == list(range(number + 1)), step
            newest = [table.history(limit=1)[0].transaction_id for table in (old, made)]
            assert newest == [key, key], step
        assert lake.doctor().healthy
    print(f"{kills} kills, {ratified} after ratification")
    assert 0 < ratified < kills


@sizes("kills", short=4, full=200)
def test_a_killed_service_commits_a_transaction_of_several_requests_once(
    tmp_path: Path, kills: int
) -> None:
    ratified = 0
    with lw.open(tmp_path) as lake, Service(lake, anonymous=None, rate=1e6, burst=1e6) as alive:
        for name, kind in zip(TABLES, ("delta", "iceberg"), strict=True):
            lake.create(name, "n int64", format=kind)
        secret = lake.create_token("etl", role="writer").secret
        begin_over_requests(alive.client(secret), "over-000000", 0)
        reached: list[str] = []
        steps.observe(reached.append)
        try:
            assert commit_over_requests(alive.url, secret, "over-000000").status_code == 200
        finally:
            steps.observe(None)
        places = from_both_ends([(step, 1) for step in dict.fromkeys(reached)])
        for number in range(1, kills + 1):
            step, occurrence = places[number % len(places)]
            name = f"over-{number:06d}"
            begin_over_requests(alive.client(secret), name, number)
            worker = processes.start(serve_until_killed, str(tmp_path), step, occurrence)
            address = worker.hear()
            with pytest.raises(httpx.TransportError):
                commit_over_requests(address, secret, name)
            worker.finish()
            assert worker.killed, step
            before = rows_of(lake)
            assert before[0] == before[1], step
            ratified += number in before[0]

            answer = commit_over_requests(alive.url, secret, name)

            assert answer.status_code == 200, (step, answer.text)
            wanted = list(range(number + 1))
            assert rows_of(lake) == [wanted, wanted], step
        assert not any((Path(lake.warehouse) / "_pending").iterdir())
        assert lake.doctor().healthy
    print(f"{kills} kills, {ratified} after ratification")
    assert 0 < ratified < kills


def begin_over_requests(client: httpx.Client, name: str, number: int) -> None:
    """Send a transaction that appends a number to both tables, without its commit."""
    path = "/api/v1/transactions"
    assert client.post(path, json={"id": name}).status_code == 201
    for table in TABLES:
        sent = client.post(
            f"{path}/{name}/rows",
            params={"table": table},
            content=stream(pa.table({"n": [number]})),
            headers={"content-type": ARROW},
        )
        assert sent.status_code == 200, sent.text


def commit_over_requests(address: str, secret: str, name: str) -> httpx.Response:
    headers = {"authorization": f"Bearer {secret}"}
    path = f"{address}/api/v1/transactions/{name}/commit"
    return httpx.post(path, json={}, headers=headers, timeout=60)


def from_both_ends(places: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """The first, the last, the second, …: a few kills are before and after ratification."""
    return [places[n // 2 if n % 2 == 0 else -1 - n // 2] for n in range(len(places))]


def test_the_same_commit_sent_at_once_is_made_once(tmp_path: Path) -> None:
    """A client that gives up waiting sends its commit again while the first one is under way."""
    from concurrent.futures import ThreadPoolExecutor

    with lw.open(tmp_path / "lake") as lake, Service(lake, anonymous=None) as alive:
        for name in TABLES:
            lake.create(name, "n int64", format="iceberg")
        secret, body = lake.create_token(role="writer").secret, changes(alive, 0)
        with ThreadPoolExecutor(4) as pool:
            sent = [pool.submit(send, alive.url, secret, "at-once-1", body) for _ in range(4)]
            codes = Counter(s.result().status_code for s in sent)

        assert codes[204] >= 1
        assert set(codes) <= {204, 409, 500, 503}, codes
        assert send(alive.url, secret, "at-once-1", body).status_code == 204
        assert rows_of(lake) == [[0], [0]]


def serve_until_killed(pipe: Connection, directory: str, step: str, occurrence: int) -> None:
    """Serve a lake, and end by SIGKILL at a step of the first commit."""
    with lw.open(directory) as lake, Service(lake, anonymous=None) as service:
        processes.kill_myself_at(step, occurrence)
        pipe.send(service.url)
        signal.pause()


def steps_of_a_commit(service: Service) -> list[str]:
    """The steps that a commit over both tables reaches, in order."""
    reached = steps_of(service, changes(service, 0))
    assert {"ratify.locked", "iceberg.swapped", "ratify.inserted", "ratify.committed"} <= {*reached}
    return reached


def steps_of(service: Service, body: dict[str, object]) -> list[str]:
    """The steps that a commit reaches, in order."""
    reached: list[str] = []
    secret = service.lake.create_token(role="writer").secret
    steps.observe(reached.append)
    try:
        assert send(service.url, secret, "first-one", body).status_code == 204
    finally:
        steps.observe(None)
    return reached


def creation(service: Service, number: int) -> dict[str, object]:
    """A commit that creates a table with a number, and appends the number to another one."""
    catalog, rows = catalog_of(service, "writer"), pa.table({"n": [number]})
    made = created(catalog, ("pair", f"new{number}"), rows)
    return {"table-changes": [staged(catalog.load_table("pair.old"), rows), made]}


def changes(service: Service, number: int) -> dict[str, object]:
    """A commit that appends a number to both tables."""
    catalog = catalog_of(service, "writer")
    rows = pa.table({"n": [number]})
    return {"table-changes": [staged(catalog.load_table(name), rows) for name in TABLES]}


def send(address: str, secret: str, key: str, body: dict[str, object]) -> httpx.Response:
    headers = {"authorization": f"Bearer {secret}", "idempotency-key": key}
    return httpx.post(f"{address}{COMMIT}", json=body, headers=headers, timeout=60)


def rows_of(lake: lw.Lake) -> list[list[int]]:
    """The numbers that each table has."""
    return [sorted(lake.table(n).to_arrow()["n"].to_pylist()) for n in TABLES]


def published(lake: lw.Lake) -> list[list[int]]:
    """The same, as pyiceberg reads it."""
    places = [str(lake.table(name).metadata_location) for name in TABLES]
    found = [StaticTable.from_metadata(place).scan().to_arrow() for place in places]
    return [sorted(rows["n"].to_pylist()) for rows in found]
