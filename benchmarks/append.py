"""Append and commit of 100 rows, one writer.

Lakeward syncs the data file, its log and the published log before it returns. deltalake syncs
nothing: its data file, its log entry and both directories are synced after its commit, inside its
time. DuckLake syncs its catalog itself; its data file and the file's directory are synced inside
its time.

Peers have two ways each, and the faster one counts: deltalake by the table's location or with one
`DeltaTable` kept over all commits, DuckLake with its catalog in a DuckDB or in a SQLite file.
"""

from __future__ import annotations

from contextlib import ExitStack
from time import perf_counter

from deltalake import DeltaTable, write_deltalake

import lakeward as lw
from benchmarks.data import SCHEMA, rows
from benchmarks.delta import DeltaWriter
from benchmarks.ducklake import DuckLake
from benchmarks.result import Result, Settings, faster
from benchmarks.rounds import best, by_name, check_arrived, interleave
from benchmarks.scratch import fresh

ROWS = 100
TURN = 10


def run(settings: Settings) -> Result:
    """Append with all contenders in turn, and check that every row arrived everywhere."""
    rounds, warm_up = settings.choose(30, 5), settings.choose(2, 1)
    data = rows(ROWS)
    place = fresh(settings.scratch / "append")
    with ExitStack() as stack:
        lake = stack.enter_context(lw.open(place / "lake"))
        lake.create("t", SCHEMA)

        def ours() -> float:
            started = perf_counter()
            with lake.transaction() as tx:
                tx.append("t", data)
            return perf_counter() - started

        for name in ("location", "object"):
            write_deltalake(str(place / f"delta-{name}"), data.slice(0, 0))
        by_location = DeltaWriter(place / "delta-location", reuse=False)
        by_object = DeltaWriter(place / "delta-object", reuse=True)
        duck = stack.enter_context(DuckLake(place / "duck-duckdb", "duckdb", data))
        lite = stack.enter_context(DuckLake(place / "duck-sqlite", "sqlite", data))
        contenders = {
            "Lakeward": ours,
            "deltalake (location)": lambda: by_location.append(data),
            "deltalake (DeltaTable kept)": lambda: by_object.append(data),
            "DuckLake (DuckDB catalog)": duck.append,
            "DuckLake (SQLite catalog)": lite.append,
        }
        series = interleave(contenders, rounds=rounds, warm_up=warm_up, turn=TURN, writes=True)
        counts = [
            lake.table("t").totals().rows,
            DeltaTable(str(place / "delta-location")).count(),
            DeltaTable(str(place / "delta-object")).count(),
            duck.count(),
            lite.count(),
        ]
    check_arrived(counts, [ROWS * s.calls for s in series])
    times = by_name(series)
    delta = best(series, "deltalake")
    ducklake = best(series, "DuckLake")
    return Result(
        "append",
        f"append + commit of {ROWS} rows, one writer",
        series,
        [
            faster("append + commit, median", times["Lakeward"], delta, times=6),
            faster("append + commit, median", times["Lakeward"], ducklake, times=6),
        ],
        (
            f"{rounds} rounds of {TURN} appends a turn, after {warm_up} rounds of warm-up.",
            "deltalake does not sync: its data file, log entry and directories are, in its time.",
            "DuckLake syncs its catalog only: its data file and directory are synced in its time.",
            "Of each peer's two ways the faster one is compared.",
        ),
    )
