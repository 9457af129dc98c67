"""Consumers of the lake's changes, killed again and again, see every transaction once and in order.

Eight processes commit transactions over tables of both formats. Two consumers write down what they
see, each in a table of its own, in the transactions that move their positions.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection

import pytest

import lakeward as lw
from lakeward.errors import Conflict
from tests.support import processes
from tests.support.sizes import sizes
from tests.support.target import LakeTarget

pytestmark = [pytest.mark.slow, pytest.mark.crash]
_SOURCES = {"one": "delta", "two": "iceberg", "three": "delta"}
_CONSUMERS = 2
_SEEN = {"position": "int64", "transaction_id": "string", "tables": "string", "rows": "int64"}


@dataclass(frozen=True)
class Load:
    """How many processes write how much, and how often consumers are killed at least."""

    writers: int
    commits: int
    kills: int


@sizes("load", short=Load(8, 4, 1), full=Load(8, 200, 25))
def test_every_consumer_sees_every_transaction_once_and_in_order(
    lake_target: LakeTarget, make_lake: Callable[[], lw.Lake], load: Load
) -> None:
    lake = make_lake()
    for name, form in _SOURCES.items():
        lake.create(name, {"writer": "int64", "n": "int64"}, format=form)
    for number in range(_CONSUMERS):
        lake.create(f"seen{number}", _SEEN)
    with processes.started(load.writers, write, lake_target, load.commits) as writers:
        kills = _kill_until(lake_target, writers, load)
        said = [worker.finish() for worker in writers]
    committed = {i for messages in said for i in messages[-1]}
    assert len(committed) == load.writers * load.commits

    for number in range(_CONSUMERS):
        # The last instance is not killed, and ends when nothing is left.
        processes.start(consume, number, lake_target, 0.5).finish()
        _check(lake, f"seen{number}", committed)
    print(f"\n{len(committed)} transactions, {kills} kills of {_CONSUMERS} consumers")


def _kill_until(target: LakeTarget, writers: list[processes.Worker], load: Load) -> int:
    """Kill and start consumers while there are writers, and so often at least."""
    chance = random.Random(load.commits)
    kills = 0
    running = [processes.start(consume, n, target, 600.0) for n in range(_CONSUMERS)]
    while kills < load.kills * _CONSUMERS or any(w.process.is_alive() for w in writers):
        number = chance.randrange(_CONSUMERS)
        running[number].hear()
        time.sleep(chance.random() * 0.4)
        os.kill(running[number].pid, signal.SIGKILL)
        running[number].finish()
        kills += 1
        running[number] = processes.start(consume, number, target, 600.0)
        for writer in writers:
            while writer.process.is_alive() and writer.pipe.poll():
                with suppress(EOFError):
                    writer.hear()
                    continue
                break
    for worker in running:
        os.kill(worker.pid, signal.SIGKILL)
        worker.finish()
    return kills + _CONSUMERS


def _check(lake: lw.Lake, name: str, committed: set[str]) -> None:
    rows = lake.table(name).changes(since=1).read_all().to_pylist()
    by_commit = sorted(rows, key=lambda r: r["_commit_version"])
    positions = [r["position"] for r in by_commit]
    assert positions == sorted(positions), f"{name} did not see the order of commits"
    ids = [r["transaction_id"] for r in by_commit if r["tables"] != "created"]
    assert len(ids) == len(set(ids)), f"{name} saw a transaction twice"
    assert set(ids) == committed, f"{name} missed {committed - set(ids)}"
    seen: dict[str, int] = {}
    for row in by_commit:
        versions = lake.transaction_record(row["transaction_id"]).versions
        if row["tables"] != "created":
            assert row["tables"] == ",".join(sorted(versions)), "a transaction was not whole"
            assert row["rows"] == len(versions)
        for table, version in versions.items():
            assert version == seen.get(table, -1) + 1, f"{table} is out of order"
            seen[table] = version


def write(pipe: Connection, number: int, target: LakeTarget, commits: int) -> None:
    """Commit transactions over some tables; tell their ids."""
    lake = target.open()
    chance = random.Random(number)
    pipe.send("ready")
    pipe.recv()
    done = []
    for n in range(commits):
        with lake.transaction() as tx:
            for name in chance.sample(sorted(_SOURCES), chance.randrange(1, 4)):
                tx.append(name, [{"writer": number, "n": n}])
        done.append(tx.commit().transaction_id)
    pipe.send(done)


def consume(pipe: Connection, number: int, target: LakeTarget, timeout: float) -> None:
    """Write down every transaction, until there is none for some seconds."""
    lake = target.open()
    consumer = lake.consumer(f"consumer-{number}", tables=sorted(_SOURCES))
    pipe.send("ready")
    for change in consumer.follow(timeout=timeout):
        counts = {name: part.count() for name, part in change.tables.items()}
        tables = ",".join(sorted(counts)) if sum(counts.values()) else "created"
        row = {
            "position": change.position,
            "transaction_id": change.transaction_id,
            "tables": tables,
            "rows": sum(counts.values()),
        }
        # One that was killed may have committed and not said so.
        with suppress(Conflict), consumer.transaction(change) as tx:
            tx.append(f"seen{number}", [row])
