"""One alteration beside one append, each a commit of its own, on small and on very large tables.

The large tables have a million files in the log of the lake; the Iceberg one has them in a hundred
manifests, too, because each of its commits writes a new list of them. The kinds of change
alternate, so that none is repeated on the same definition; renames switch column mapping on, which
is the largest change of a definition there is.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pyarrow as pa

import lakeward as lw
from benchmarks.data import SCHEMA, rows
from benchmarks.logs import ManyFiles
from benchmarks.result import Claim, Result, Series, Settings, faster
from benchmarks.rounds import by_name, interleave, timed
from benchmarks.scratch import fresh

LIMIT = 3
_VERSIONS = 1000
_MANIFESTS = 100


def run(settings: Settings) -> Result:
    """Alter and append by turns."""
    place = fresh(settings.scratch / "alter")
    large = ManyFiles(_VERSIONS, settings.choose(1000, 10))
    listed = ManyFiles(_MANIFESTS, settings.choose(10_000, 10))
    claims: list[Claim] = []
    series: list[Series] = []
    with lw.open(place / "lake") as lake:
        lake.create("young", SCHEMA)
        lake.create("iceberg", SCHEMA, format="iceberg")
        large.insert(lake, "large")
        listed.commit(lake, "listed", "iceberg")
        # A checkpoint of a million files in the background would disturb both.
        lake.table("large").alter().set_property("delta.checkpointInterval", "0").commit()
        names = {
            "young": "Delta, young",
            "iceberg": "Iceberg, young",
            "large": f"Delta, {large.files:,} files",
            "listed": f"Iceberg, {listed.files:,} files",
        }
        for table, words in names.items():
            found = interleave(
                {
                    f"alter, {words}": timed(_alter(lake.table(table))),
                    f"append, {words}": timed(_append(lake.table(table))),
                },
                rounds=settings.choose(100, 10),
                warm_up=3,
            )
            times = by_name(found)
            series += found
            claims.append(
                faster(
                    f"alter beside an append of 100 rows, {words}",
                    times[f"alter, {words}"],
                    times[f"append, {words}"],
                    times=1 / LIMIT,
                )
            )
    return Result(
        "alter",
        f"one alteration (add, rename, drop a column; a property) beside one append, also on"
        f" {large.files:,} files of a Delta table and {listed.files:,} of an Iceberg table",
        series,
        claims,
        (f"{series[0].rounds} rounds after three of warm-up; every call is a commit.",),
    )


def _alter(table: lw.Table) -> Callable[[], object]:
    turns = count()

    def once() -> object:
        number = next(turns)
        change = table.alter()
        match number % 4:
            case 0:
                change.add_column(f"c{number}", "string", default="'x'")
            case 1:
                change.rename_column(f"c{number - 1}", f"d{number}")
            case 2:
                change.drop_column(f"d{number - 1}")
            case _:
                change.set_property("owner", str(number))
        return change.commit()

    return once


def _append(table: lw.Table) -> Callable[[], object]:
    names = table.schema.names
    data = rows(100) if names == SCHEMA.names else _numbers(names)
    return lambda: table.append(data)


def _numbers(names: list[str]) -> pa.Table:
    return pa.table({name: pa.array(range(100), pa.int64()) for name in names})
