"""One transaction that appends to two Delta tables.

DuckLake commits several tables in one transaction too, in its own format. Syncing is as in append.
"""

from __future__ import annotations

from contextlib import ExitStack
from time import perf_counter

import lakeward as lw
from benchmarks.data import SCHEMA, rows
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
    place = fresh(settings.scratch / "tables")
    with ExitStack() as stack:
        lake = stack.enter_context(lw.open(place / "lake"))
        lake.create("t", SCHEMA)
        lake.create("u", SCHEMA)

        def ours() -> float:
            started = perf_counter()
            with lake.transaction() as tx:
                tx.append("t", data)
                tx.append("u", data)
            return perf_counter() - started

        duck = stack.enter_context(DuckLake(place / "duck-duckdb", "duckdb", data))
        lite = stack.enter_context(DuckLake(place / "duck-sqlite", "sqlite", data))
        contenders = {
            "Lakeward": ours,
            "DuckLake (DuckDB catalog)": duck.append_two,
            "DuckLake (SQLite catalog)": lite.append_two,
        }
        series = interleave(contenders, rounds=rounds, warm_up=warm_up, turn=TURN, writes=True)
        counts = [lake.table("t").totals().rows, duck.count(), lite.count()]
        counts.append(lake.table("u").totals().rows)
    times = by_name(series)
    check_arrived(counts, [ROWS * s.calls for s in (*series, times["Lakeward"])])
    peer = best(series, "DuckLake")
    return Result(
        "tables",
        f"append of {ROWS} rows to each of two tables in one transaction",
        series,
        [faster("two-table transaction, median", times["Lakeward"], peer, times=4)],
        (
            f"{rounds} rounds of {TURN} transactions a turn, after {warm_up} rounds of warm-up.",
            "DuckLake syncs its catalog only: its data files are synced in its time.",
        ),
    )
