"""Compaction of 1,000 small files and Z-order by two columns, beside deltalake and Spark; lookups.

Every contender gets a table of its own with the same rows for each round, because what was laid out
once has nothing left to do. Times are shown by the clock and by the processor: on a busy machine
only the latter can be compared with those of another run. Spark syncs nothing to disk, and that is
not made up for. The peak of memory is that of a process that does nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

import lakeward as lw
from benchmarks.lookups import lookups
from benchmarks.memory import peak_of
from benchmarks.result import Claim, Quantity, Result, Series, Settings, below, faster
from benchmarks.rounds import by_name, interleave
from benchmarks.scratch import fresh

_ROOT = Path(__file__).parents[1]
_OWN, _PEER, _SPARK = "lakeward", "deltalake", "Spark"
_TIMES = {_PEER: 1.5, _SPARK: 3.0}
_COLUMNS = ["id", "c"]
_MEMORY_MB = 1024


def run(settings: Settings) -> Result:
    """Measure all of it, one after the other."""
    return measure(
        fresh(settings.scratch / "layout"),
        files=settings.choose(1_000, 50),
        rows=settings.choose(10_000_000, 200_000),
        rounds=settings.choose(5, 2),
    )


def measure(place: Path, *, files: int, rows: int, rounds: int) -> Result:
    """Measure so many files and rows."""
    os.environ.setdefault("LAKEWARD_CACHE", str(_ROOT / ".jars"))
    from lakeward.spark import session

    small = [_rows(1_000, seed) for seed in range(files)]
    large = [_rows(rows // 10, seed) for seed in range(10)]
    series: list[Series] = []
    claims: list[Claim] = []
    with lw.open(place / "lake") as lake:
        spark = session(lake, master="local[2]", **{"spark.ui.showConsoleProgress": False})
        spark.sparkContext.setLogLevel("ERROR")
        try:
            series += _raced(lake, spark, place, "compaction", small, None, rounds)
            series += _raced(lake, spark, place, "Z-order", large, _COLUMNS, max(1, rounds // 2))
        finally:
            spark.stop()
        found, opened = lookups(lake, place, large, _COLUMNS, rounds * 4)
        series += found
        claims += _memory(lake, place, large)
    times = by_name(series)
    for what in ("compaction", "Z-order"):
        claims += [
            faster(
                f"{what}{by}", times[f"{_OWN}: {what}{by}"], times[f"{who}: {what}{by}"], times=n
            )
            for who, n in _TIMES.items()
            for by in ("", ", CPU time")
        ]
    for way in ("Z-order", "Bloom filters"):
        ours, theirs = (times[f"{who}: lookup by {way}"] for who in (_OWN, _PEER))
        claims.append(faster(f"lookup by {way}", ours, theirs, times=1.0))
    claims += opened
    title = f"compaction of {files:,} files, Z-order of {rows:,} rows by two columns, lookups"
    return Result("layout", title, series, claims, (f"{rounds} rounds; files of 1,000 rows.",))


def _rows(number: int, seed: int) -> pa.Table:
    chance = np.random.default_rng(seed)
    return pa.table(
        {
            "id": chance.integers(0, 10**9, number),
            "c": chance.integers(0, 10**6, number),
            "k": pa.array(chance.integers(0, 5_000, number)).cast(pa.string()),
            "v": chance.random(number),
        }
    )


def _raced(
    lake: lw.Lake,
    spark: Any,
    place: Path,
    what: str,
    parts: Sequence[pa.Table],
    columns: list[str] | None,
    rounds: int,
) -> list[Series]:
    """Let all three lay out tables of the same rows by turns; their times by both clocks."""
    numbers = count()
    cpu: dict[str, list[float]] = {}
    on_spark = _clock_of(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())

    def contender(
        who: str, make: Callable[[str], Callable[[], object]], clock: Callable[[], float]
    ) -> Callable[[], float]:
        used = cpu.setdefault(f"{who}: {what}, CPU time", [])

        def once() -> float:
            name = f"{who}_{'z' if columns else 'p'}_{next(numbers)}".lower()
            lay_out = make(name)
            worked, started = clock(), perf_counter()
            lay_out()
            taken = perf_counter() - started
            used.append(clock() - worked)
            return taken

        return once

    def own(name: str) -> Callable[[], object]:
        table = lake.create(name, parts[0].schema)
        for part in parts:
            table.append(part)
        return lambda: table.optimize(zorder=columns)

    def peer(name: str) -> Callable[[], object]:
        table = DeltaTable(_written(place / name, parts))
        return lambda: table.optimize.z_order(columns) if columns else table.optimize.compact()

    def engine(name: str) -> Callable[[], object]:
        order = f" ZORDER BY ({', '.join(columns)})" if columns else ""
        location = _written(place / name, parts)
        return lambda: spark.sql(f"OPTIMIZE delta.`{location}`{order}").collect()

    contenders = {
        f"{_OWN}: {what}": contender(_OWN, own, process_time),
        f"{_PEER}: {what}": contender(_PEER, peer, process_time),
        f"{_SPARK}: {what}": contender(_SPARK, engine, on_spark),
    }
    series = interleave(contenders, rounds=rounds, warm_up=1, writes=True)
    return series + [Series(who, used[1:]) for who, used in cpu.items()]


def _written(location: Path, parts: Sequence[pa.Table]) -> str:
    for part in parts:
        write_deltalake(str(location), part, mode="append")
    return str(location)


def _clock_of(process: int) -> Callable[[], float]:
    """A clock of the processor time of another process."""

    def seconds() -> float:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    return seconds


def _memory(lake: lw.Lake, place: Path, parts: Sequence[pa.Table]) -> list[Claim]:
    """The peaks of processes that Z-order a table, ours and the peer's."""
    table = lake.create("memory", parts[0].schema)
    for part in parts:
        table.append(part)
    location = _written(place / "memory", parts)
    ours = Quantity(peak_of(_order_ours, place / "lake"), "MB")
    theirs = Quantity(peak_of(_order_theirs, Path(location)), "MB")
    limit = Quantity(_MEMORY_MB, "MB")
    kept = below("Z-order, peak of memory", ours, limit, f"{_MEMORY_MB} MB")
    return [
        Claim(
            kept.what,
            ours,
            kept.floor,
            kept.holds,
            _PEER,
            theirs,
            theirs.value / ours.value,
        )
    ]


def _order_ours(place: Path) -> None:
    with lw.open(place, create=False) as lake:
        lake.table("memory").optimize(zorder=_COLUMNS)


def _order_theirs(place: Path) -> None:
    DeltaTable(str(place)).optimize.z_order(_COLUMNS)
