"""A point plan: which files may hold a row, among very many files.

deltalake has no call that plans. What counts for it is the faster of two ways, each from loading
the table in a warm process to the names of the files: its list of files with their bounds as an
Arrow table, filtered by pyarrow; and its own query planner, asked to explain the query. Its log
has a checkpoint, written by itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, QueryBuilder

import lakeward as lw
from benchmarks.logs import ROWS_PER_FILE, ManyFiles
from benchmarks.memory import peak_of
from benchmarks.result import (
    Claim,
    Quantity,
    Result,
    Series,
    Settings,
    below,
    faster,
)
from benchmarks.rounds import by_name, interleave, timed
from benchmarks.scratch import fresh

VERSIONS = 1000
GROWTH = 10
MEMORY_MB = 300
WANTED = 123_456
OVERLAPPED = 555_000_111


def run(settings: Settings) -> Result:
    """Plan over a large log on both sides, and over one ten times as large on ours."""
    small = ManyFiles(VERSIONS, settings.choose(100, 10))
    large = ManyFiles(VERSIONS, small.files_per_version * GROWTH)
    place = fresh(settings.scratch / "plan")
    small.write_delta(place / "delta")
    DeltaTable(str(place / "delta")).create_checkpoint()
    lake = lw.open(place / "lake")
    small.insert(lake, "small")
    large.insert(lake, "large")
    lake.close()

    names = {shape: f"{shape.files:,} files" for shape in (small, large)}
    with lw.open(place / "lake", create=False) as lake:
        tables = {small: lake.table("small"), large: lake.table("large")}
        ours: dict[str, Callable[[], list[str]]] = {}
        for shape, table in tables.items():
            ours[f"Lakeward, {names[shape]}"] = partial(_paths, table, f"id = {WANTED}")
            ours[f"Lakeward, {names[shape]}, overlapping"] = partial(
                _paths, table, f"k = {OVERLAPPED}"
            )
        listed = f"deltalake, {names[small]} (files as Arrow)"
        planned = f"deltalake, {names[small]} (query planner)"
        location = str(place / "delta")
        theirs: dict[str, Callable[[], list[str]]] = {
            listed: partial(_listed, location),
            planned: partial(_planned, location),
        }
        everybody = {**ours, **theirs}
        _check({n: everybody[n]() for n in everybody if "overlapping" not in n})
        found = {n: len(ours[n]()) for n in ours if "overlapping" in n}
        series = interleave(
            {n: timed(f) for n, f in everybody.items()},
            rounds=settings.choose(30, 5),
            warm_up=settings.choose(5, 1),
        )
    times = by_name(series)
    first, second = (times[f"Lakeward, {names[s]}"] for s in (small, large))
    peer = min((times[n] for n in theirs), key=lambda s: s.median)
    return Result(
        "plan",
        f"point plan over {names[small]} in {VERSIONS:,} versions",
        series,
        [
            faster(f"point plan, {names[small]}", first, peer, times=20),
            _growth(first, second, names[large]),
            below(
                f"peak memory of a process that plans over {names[large]}",
                Quantity(peak_of(_plan_alone, place / "lake"), "MB"),
                Quantity(MEMORY_MB, "MB"),
                f"{MEMORY_MB} MB",
            ),
        ],
        (
            f"{first.rounds} rounds; logs without data, the same files on both sides.",
            *(f"{n}: {count} files found" for n, count in found.items()),
        ),
    )


def _paths(table: lw.Table, where: str) -> list[str]:
    return [f.path for f in table.files(where=where)]


def _listed(location: str) -> list[str]:
    actions = pa.table(DeltaTable(location).get_add_actions(flatten=True))
    inside = (pc.field("min.id") <= WANTED) & (pc.field("max.id") >= WANTED)
    return list(actions.filter(inside).column("path").to_pylist())


def _planned(location: str) -> list[str]:
    query = f"EXPLAIN SELECT * FROM t WHERE id = {WANTED}"
    answer = pa.table(QueryBuilder().register("t", DeltaTable(location)).execute(query))
    return re.findall(r"part-[\w-]+\.snappy\.parquet", str(answer.column("plan")[-1]))


def _check(answers: dict[str, list[str]]) -> None:
    """Everybody finds the one file that can hold the row."""
    wanted = f"part-{WANTED // ROWS_PER_FILE:08d}-"
    for who, paths in answers.items():
        if len(paths) != 1 or not paths[0].startswith(wanted):
            message = f"{who} planned {paths[:3]}, {len(paths)} files in all"
            raise RuntimeError(message)


def _growth(small: Series, large: Series, name: str) -> Claim:
    ratio = large.median / small.median
    return Claim(
        f"point plan, {name}, beside {GROWTH} times fewer",
        Quantity(large.median),
        "≤ 3× ours",
        ratio <= 3,
        "Lakeward",
        Quantity(small.median),
        1 / ratio,
    )


def _plan_alone(place: Path) -> None:
    with lw.open(place, create=False) as lake:
        for _ in range(10):
            lake.table("large").files(where=f"id = {WANTED}")
