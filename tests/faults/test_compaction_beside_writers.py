"""Writers append, update and delete while compaction and clustering run without a pause.

Every writer has a partition of its own, so that no other writer is ever in its way. What stops one
is the compaction, and nothing of it may.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

import lakeward as lw
from lakeward.errors import LakewardError
from tests.support import processes
from tests.support.sizes import sizes
from tests.support.target import LakeTarget

pytestmark = pytest.mark.slow

_SCHEMA = {"writer": "int64", "id": "int64", "v": "int64"}


@dataclass(frozen=True)
class Load:
    """How many writers, for how many seconds they write, and how many commits each at least."""

    writers: int
    seconds: float
    commits: int


@sizes("load", short=Load(3, 0, 25), full=Load(8, 200, 100))
@pytest.mark.parametrize("form", ["delta", "iceberg", "marked"])
def test_no_writer_fails_and_rows_are_exact(
    lake_target: LakeTarget, make_lake: Callable[[], lw.Lake], load: Load, form: str
) -> None:
    lake = make_lake()
    fewer = Load(load.writers, load.seconds / 4, load.commits // 4)
    runs = {"alone": run(lake, lake_target, "alone", form, fewer)[0]}
    if load.seconds:
        # Readers take as much of the processors as compactions, and lock nothing.
        runs["beside readers"] = run(lake, lake_target, "crowd", form, fewer, read)[0]
    beside, rows, rounds = run(lake, lake_target, "beside", form, load, move)
    runs["beside compactions"] = beside
    table = make_lake().table("beside")

    assert [error for said in beside for error in said["errors"]] == []
    expected = Counter(
        (number, key, value) for number, said in enumerate(beside) for key, value in said["rows"]
    )
    assert rows == expected
    assert not make_lake().doctor(tables=["beside"]).findings
    moves = {v.version for v in table.history() if v.operation == "OPTIMIZE"}
    assert moves, rounds
    if load.seconds < 60:
        changed = table.changes(since=1, columns=["id"])
        versions = {v for batch in changed for v in batch["_commit_version"].to_pylist()}
        assert versions
        assert versions.isdisjoint(moves)
    figures = [
        f"{slowest(said)} {who}, of which it waited {slowest(said, 'waits')}"
        for who, said in runs.items()
    ]
    print(
        f"\n{form}, {load.writers} writers: {len(moves)} compactions of {rounds} rounds,"
        f" {sum(len(s['times']) for s in beside)} commits;"
        f" slowest commit, ms: {'; '.join(figures)}"
    )


def slowest(said: list[dict[str, Any]], what: str = "times") -> str:
    """The slowest commit, and the one that is slower than 99 of 100."""
    times = sorted(t for one in said for t in one[what])
    return f"{times[-1] * 1000:.0f} (p99 {times[int(len(times) * 0.99)] * 1000:.0f})"


def run(
    lake: lw.Lake,
    target: LakeTarget,
    name: str,
    form: str,
    load: Load,
    other: Callable[[Connection, int, LakeTarget, str], None] | None = None,
) -> tuple[list[dict[str, Any]], Counter[tuple[int, int, int]], int]:
    """Let writers write, beside two processes that do other work; what they said, and the rows."""
    kind = "iceberg" if form == "iceberg" else "delta"
    options: dict[str, Any] = {"policy": {"merge_on_read": True}} if form == "marked" else {}
    table = lake.create(name, _SCHEMA, format=kind, partition_by=["writer"], **options)
    with (
        processes.started(2 if other else 0, other or move, target, name) as movers,
        processes.started(load.writers, write, target, name, load) as writers,
    ):
        said = [worker.finish()[-1] for worker in writers]
        for mover in movers:
            mover.tell("stop")
        rounds = sum(mover.finish()[-1] for mover in movers)
    found = table.to_arrow().to_pylist()
    return said, Counter((r["writer"], r["id"], r["v"]) for r in found), rounds


def write(pipe: Connection, number: int, target: LakeTarget, name: str, load: Load) -> None:
    """Append, update, delete and merge rows of one partition, and keep account of them."""
    chance = random.Random(number)
    rows: dict[int, int] = {}
    times, waits, errors = list[float](), list[float](), list[str]()
    fresh = 0
    with target.open() as lake:
        table = lake.table(name)
        pipe.send("ready")
        pipe.recv()
        ends = time.monotonic() + load.seconds
        while time.monotonic() < ends or len(times) < load.commits:
            began, busy = time.perf_counter(), scheduled()
            kind = chance.choice(["append", "append", "update", "delete", "merge"])
            low = chance.randrange(max(1, fresh))
            where = f"writer = {number} AND id BETWEEN {low} AND {low + 3}"
            hit = [key for key in rows if low <= key <= low + 3]
            try:
                match kind:
                    case "append":
                        new = {fresh + n: chance.randrange(1000) for n in range(20)}
                        table.append(data(number, new))
                        rows |= new
                        fresh += 20
                    case "update":
                        table.update(set={"v": "v + 1"}, where=where)
                        rows |= {key: rows[key] + 1 for key in hit}
                    case "delete":
                        table.delete(where=where)
                        rows = {k: v for k, v in rows.items() if k not in hit}
                    case _:
                        new = {low: chance.randrange(1000)}
                        table.merge(data(number, new), on=["writer", "id"])
                        rows |= new
                        fresh = max(fresh, low + 1)
            except LakewardError as error:
                errors.append(f"{kind}: {type(error).__name__}: {error}")
            times.append(time.perf_counter() - began)
            waits.append(max(0.0, times[-1] - (scheduled() - busy)))
    pipe.send({"rows": sorted(rows.items()), "times": times, "waits": waits, "errors": errors})


def scheduled() -> float:
    """The seconds for which this thread has run, or was ready to and had no processor."""
    ran, queued, _ = Path("/proc/thread-self/schedstat").read_text().split()
    return (int(ran) + int(queued)) / 1e9


def data(number: int, rows: dict[int, int]) -> dict[str, list[int]]:
    """Rows of a writer."""
    return {"writer": [number] * len(rows), "id": list(rows), "v": list(rows.values())}


def read(pipe: Connection, number: int, target: LakeTarget, name: str) -> None:
    """Read and sort all rows until told to stop."""
    rounds = number
    with target.open() as lake:
        table = lake.table(name)
        pipe.send("ready")
        pipe.recv()
        while not pipe.poll():
            table.to_arrow().sort_by([("id", "ascending"), ("v", "ascending")])
            rounds += 1
    pipe.send(rounds - number)


def move(pipe: Connection, number: int, target: LakeTarget, name: str) -> None:
    """Pack, cluster and sort by turns until told to stop."""
    layouts: list[dict[str, Any]] = [{}, {"zorder": ["id", "v"]}, {"purge": True}, {"sort": "id"}]
    rounds = number
    with target.open() as lake:
        table = lake.table(name)
        pipe.send("ready")
        pipe.recv()
        while not pipe.poll():
            table.optimize(**layouts[rounds % len(layouts)])
            rounds += 1
    pipe.send(rounds - number)
