"""Row changes without Spark: a merge of one row in a hundred, and an update of a hundred rows.

Both sides have the same 10 million rows in files of the same number of rows. The data of the merge
are keys drawn at random over the whole table, so that every file has some; the update is of a
hundred rows that lie together. Lakeward does each twice: written again, as deltalake does it, and
with rows deleted in place, on a table that asks for merge-on-read. Each change counts when it is
safe on disk: deltalake syncs nothing, so what it wrote is synced inside its time.

Every change is made to a table in its first state, and what all sides have afterwards is compared.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

import lakeward as lw
from benchmarks.data import SCHEMA, rows
from benchmarks.result import Result, Series, Settings, faster
from benchmarks.rounds import by_name, interleave
from benchmarks.scratch import fresh
from benchmarks.sync import sync_new

_OURS = "Lakeward, files written again"
_IN_PLACE = "Lakeward, merge-on-read"
_DELTA = "deltalake"
_FILES = 5
_SEED = 7


def run(settings: Settings) -> Result:
    """Merge and update with all sides in turn, and compare what they have then."""
    count = settings.choose(10_000_000, 200_000)
    rounds, warm_up = settings.choose(9, 1), 1
    place = fresh(settings.scratch / "merge")
    data = _source(count)
    with lw.open(place / "lake") as lake:
        sides: dict[str, _Side] = {
            _OURS: _Ours(lake, "again", count, {}),
            _IN_PLACE: _Ours(lake, "marked", count, {"merge_on_read": True}),
            _DELTA: _Delta(place / "delta", count),
        }
        merges = _measured(sides, lambda side: side.merge(data), rounds, warm_up)
        updates = _measured(sides, lambda side: side.update(count // 2), rounds, warm_up)
        _compare(sides, data, count)
    merged, updated = by_name(merges), by_name(updates)
    return Result(
        "merge",
        f"{len(data):,} of {count:,} rows merged, and 100 updated",
        [
            *(Series(f"merge: {s.who}", s.seconds) for s in merges),
            *(Series(f"update: {s.who}", s.seconds) for s in updates),
        ],
        [
            faster("merge, files written again", merged[_OURS], merged[_DELTA], times=1),
            faster("merge, merge-on-read", merged[_IN_PLACE], merged[_DELTA], times=2),
            faster("update, files written again", updated[_OURS], updated[_DELTA], times=1),
            faster("update, merge-on-read", updated[_IN_PLACE], updated[_DELTA], times=5),
        ],
        (
            f"{rounds} rounds after {warm_up} of warm-up; every change is made to the same state.",
            f"{_FILES} files of {count // _FILES:,} rows each.",
            "deltalake does not sync: its data files, log entry and directories are, in its time.",
            "All three tables were read and compared after the merge and after the update.",
        ),
    )


class _Ours:
    """A table of the lake."""

    def __init__(self, lake: lw.Lake, name: str, count: int, policy: dict[str, object]) -> None:
        self._lake, self._name = lake, name
        lake.create(name, SCHEMA, policy=policy)
        for part in _parts(count):
            with lake.transaction() as tx:
                tx.append(name, part)
        self._first = lake.table(name).files()

    def merge(self, data: pa.Table) -> float:
        started = perf_counter()
        with self._lake.transaction() as tx:
            tx.merge(self._name, data, on="id")
        return perf_counter() - started

    def update(self, low: int) -> float:
        started = perf_counter()
        with self._lake.transaction() as tx:
            tx.update(self._name, set={"v": "v * 2"}, where=f"id >= {low} AND id < {low + 100}")
        return perf_counter() - started

    def put_back(self) -> None:
        """Make the first files the table's files again."""
        table = self._lake.table(self._name)
        with self._lake.transaction() as tx:
            tx.delete(self._name, where="true")
        paths = [f.path for f in self._first]
        with self._lake.transaction() as tx:
            tx.add_files(self._name, paths)
        if table.totals().rows != sum(f.rows or 0 for f in self._first):
            message = "the table was not put back"
            raise RuntimeError(message)

    def read(self) -> pa.Table:
        return self._lake.table(self._name).to_arrow()


class _Delta:
    """A table of deltalake."""

    def __init__(self, place: Path, count: int) -> None:
        self._place = place
        for part in _parts(count):
            write_deltalake(str(place), part, mode="append")

    def merge(self, data: pa.Table) -> float:
        def work() -> None:
            merger = DeltaTable(str(self._place)).merge(
                data, "t.id = s.id", source_alias="s", target_alias="t"
            )
            merger.when_matched_update_all().when_not_matched_insert_all().execute()

        return self._synced(work)

    def update(self, low: int) -> float:
        where = f"id >= {low} AND id < {low + 100}"
        return self._synced(
            lambda: DeltaTable(str(self._place)).update(updates={"v": "v * 2"}, predicate=where)
        )

    def put_back(self) -> None:
        DeltaTable(str(self._place)).restore(_FILES - 1)

    def read(self) -> pa.Table:
        return pa.table(DeltaTable(str(self._place)).to_pyarrow_table())

    def _synced(self, work: Callable[[], object]) -> float:
        before = set(self._place.rglob("*"))
        started = perf_counter()
        work()
        taken = perf_counter() - started
        return taken + sync_new(sorted(set(self._place.rglob("*")) - before))


_Side: TypeAlias = _Ours | _Delta


def _measured(
    sides: dict[str, _Side], work: Callable[[_Side], float], rounds: int, warm_up: int
) -> list[Series]:
    def contender(side: _Side) -> Callable[[], float]:
        def once() -> float:
            taken = work(side)
            side.put_back()
            return taken

        return once

    contenders = {name: contender(side) for name, side in sides.items()}
    return interleave(contenders, rounds=rounds, warm_up=warm_up, writes=True)


def _compare(sides: dict[str, _Side], data: pa.Table, count: int) -> None:
    """Merge and update once more, and see that all have the same rows after each."""
    steps: list[Callable[[_Side], float]] = [
        lambda side: side.merge(data),
        lambda side: side.update(count // 2),
    ]
    for step in steps:
        found = []
        for side in sides.values():
            step(side)
            table = side.read().select(SCHEMA.names).cast(SCHEMA)
            found.append(table.take(pc.sort_indices(table["id"])).combine_chunks())
        if any(not other.equals(found[0]) for other in found[1:]):
            message = "not all sides have the same rows"
            raise RuntimeError(message)


def _parts(count: int) -> list[pa.Table]:
    size = count // _FILES
    return [rows(size, start=n * size) for n in range(_FILES)]


def _source(count: int) -> pa.Table:
    ids = np.random.default_rng(_SEED).choice(count, count // 100, replace=False)
    names = pa.array([f"merged-{n % 100:02d}" for n in range(len(ids))])
    return pa.table({"id": ids, "v": ids * -0.5, "s": names}, schema=SCHEMA)
