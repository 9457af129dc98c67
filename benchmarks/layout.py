"""Compaction of 1,000 small files, Z-order by two columns, and point lookups, beside deltalake.

Every contender gets a table of its own with the same rows for each round, because what was laid out
once has nothing left to do. Lookups ask for one key that is spread over all files, by Bloom
filters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, write_deltalake

import lakeward as lw
from benchmarks.result import Claim, Quantity, Result, Series, Settings, faster
from benchmarks.rounds import by_name, interleave
from benchmarks.scratch import fresh

_PEER = "deltalake"
_TIMES = 1.5


def run(settings: Settings) -> Result:
    """Measure all three, one after the other."""
    place = fresh(settings.scratch / "layout")
    files, rows = settings.choose(1_000, 50), settings.choose(10_000_000, 200_000)
    rounds = settings.choose(5, 2)
    small = [_rows(1_000, seed) for seed in range(files)]
    large = [_rows(rows // 10, seed) for seed in range(10)]
    columns = ["id", "c"]
    series: list[Series] = []
    claims: list[Claim] = []
    with lw.open(place / "lake") as lake:
        packing = {
            "lakeward: compaction": _ours(lake, small, {}),
            f"{_PEER}: compaction": _theirs(place, small, None),
        }
        series += interleave(packing, rounds=rounds, warm_up=1, writes=True)
        ordering = {
            "lakeward: Z-order": _ours(lake, large, {"zorder": columns}),
            f"{_PEER}: Z-order": _theirs(place, large, columns),
        }
        series += interleave(ordering, rounds=max(1, rounds // 2), warm_up=0, writes=True)
        found, opened = _lookups(lake, place, large, rounds * 4)
        series += found
        times = by_name(series)
        claims += [
            faster(what, times[f"lakeward: {what}"], times[f"{_PEER}: {what}"], times=_TIMES)
            for what in ("compaction", "Z-order")
        ]
        lookup = times["lakeward: lookup by Bloom filters"]
        claims.append(faster("lookup", lookup, times[f"{_PEER}: lookup"], times=1.0))
        claims.append(
            Claim(
                "files opened by a lookup",
                Quantity(opened, "files"),
                "at most 2 of 10",
                holds=opened <= 2,
            )
        )
    title = f"compaction of {files:,} files, Z-order of {rows:,} rows by two columns, lookups"
    return Result("layout", title, series, claims, (f"{rounds} rounds; files of 1,000 rows.",))


def _rows(count: int, seed: int) -> pa.Table:
    chance = np.random.default_rng(seed)
    return pa.table(
        {
            "id": chance.integers(0, 10**9, count),
            "c": chance.integers(0, 10**6, count),
            "k": pa.array(chance.integers(0, 5_000, count)).cast(pa.string()),
            "v": chance.random(count),
        }
    )


def _ours(
    lake: lw.Lake, parts: Sequence[pa.Table], layout: dict[str, list[str]]
) -> Callable[[], float]:
    names = (f"own_{'_'.join(layout) or 'pack'}_{n}" for n in count())

    def once() -> float:
        table = lake.create(next(names), parts[0].schema)
        for part in parts:
            table.append(part)
        started = perf_counter()
        table.optimize(zorder=layout.get("zorder"))
        return perf_counter() - started

    return once


def _theirs(
    place: Path, parts: Sequence[pa.Table], columns: list[str] | None
) -> Callable[[], float]:
    places = (place / f"peer_{'z' if columns else 'p'}_{n}" for n in count())

    def once() -> float:
        location = str(next(places))
        for part in parts:
            write_deltalake(location, part, mode="append")
        table = DeltaTable(location)
        started = perf_counter()
        if columns is None:
            table.optimize.compact()
        else:
            table.optimize.z_order(columns)
        return perf_counter() - started

    return once


def _lookups(
    lake: lw.Lake, place: Path, parts: Sequence[pa.Table], rounds: int
) -> tuple[list[Series], int]:
    """Look one key up; the times, and how many files our planner leaves."""
    schema = parts[0].schema
    filtered = lake.create("filtered", schema, properties={"lakeward.bloom": "id"})
    location = str(place / "peer_lookup")
    for part in parts:
        filtered.append(part)
        write_deltalake(location, part, mode="append")
    key = parts[3]["id"][len(parts[3]) // 2].as_py()
    peer = DeltaTable(location)

    def ours() -> float:
        started = perf_counter()
        if not filtered.to_arrow(where=f"id = {key}").num_rows:
            message = "the key was not found"
            raise RuntimeError(message)
        return perf_counter() - started

    def theirs() -> float:
        started = perf_counter()
        query = f"SELECT * FROM t WHERE id = {key}"
        pa.table(QueryBuilder().register("t", peer).execute(query).read_all())
        return perf_counter() - started

    contenders = {"lakeward: lookup by Bloom filters": ours, f"{_PEER}: lookup": theirs}
    series = interleave(contenders, rounds=rounds, warm_up=1)
    return series, len(filtered.files(where=f"id = {key}"))
