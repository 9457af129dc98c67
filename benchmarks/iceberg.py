"""Appends to Iceberg tables: alone, beside a Delta table, and after many snapshots.

Lakeward syncs the data file, the manifest, the manifest list, the metadata document and its log
before it returns. pyiceberg syncs its catalog only: the files it wrote and their directories are
synced after its commit, inside its time. It has two ways, and the faster one counts: with one table
object kept over all commits, or with the table loaded anew for each.

The tables have 100 snapshots when the rounds begin; one of ours has 1,000.
"""

from __future__ import annotations

from contextlib import ExitStack
from time import perf_counter

import lakeward as lw
from benchmarks import pyiceberg_writer
from benchmarks.data import SCHEMA, rows
from benchmarks.pyiceberg_writer import IcebergWriter
from benchmarks.result import Claim, Quantity, Result, Series, Settings, faster
from benchmarks.rounds import Contender, best, by_name, check_arrived, interleave
from benchmarks.scratch import fresh

ROWS = 100
TURN = 5
FLAT = 1.5


def run(settings: Settings) -> Result:
    """Append with all contenders in turn, and check that every row arrived everywhere."""
    rounds, warm_up = settings.choose(20, 3), settings.choose(2, 1)
    few, many = settings.choose(100, 10), settings.choose(1000, 50)
    data = rows(ROWS)
    place = fresh(settings.scratch / "iceberg")
    with ExitStack() as stack:
        lake = stack.enter_context(lw.open(place / "lake"))
        for name in ("alone", "old", "beside"):
            lake.create(name, SCHEMA, format="iceberg")
        lake.create("delta", SCHEMA)

        def ours(*names: str) -> Contender:
            def once() -> float:
                started = perf_counter()
                with lake.transaction() as tx:
                    for name in names:
                        tx.append(name, data)
                return perf_counter() - started

            return once

        peers = {}
        for way in ("kept", "loaded"):
            pyiceberg_writer.create(place / way, SCHEMA)
            peers[way] = IcebergWriter(place / way, reuse=way == "kept")
        for _ in range(few):
            for name in ("alone", "beside"):
                ours(name)()
            for writer in peers.values():
                writer.append(data)
        for _ in range(many):
            ours("old")()
        contenders = {
            "Lakeward": ours("alone"),
            f"Lakeward, {many} snapshots": ours("old"),
            "Lakeward, Delta and Iceberg in one": ours("delta", "beside"),
            "pyiceberg (table kept)": lambda: peers["kept"].append(data),
            "pyiceberg (table loaded)": lambda: peers["loaded"].append(data),
        }
        series = interleave(contenders, rounds=rounds, warm_up=warm_up, turn=TURN, writes=True)
        counts = [lake.table(n).totals().rows for n in ("alone", "old", "beside")]
        counts += [peer.count() for peer in peers.values()]
    before = [few, many, few, few, few]
    check_arrived(counts, [ROWS * (b + s.calls) for b, s in zip(before, series, strict=True)])
    times = by_name(series)
    alone, old, both = [s for s in series if s.who.startswith("Lakeward")]
    peer = best(series, "pyiceberg")
    return Result(
        "iceberg",
        f"append + commit of {ROWS} rows to Iceberg tables, one writer",
        series,
        [
            faster("Iceberg append + commit, median", times["Lakeward"], peer, times=5),
            _flat(alone, old, few, many),
            faster("one Delta and one Iceberg table, one transaction", both, peer, times=3),
        ],
        (
            f"{rounds} rounds of {TURN} appends a turn, after {warm_up} rounds of warm-up.",
            f"The tables had {few} snapshots when the rounds began, one of ours {many}.",
            "pyiceberg syncs its catalog only: the rest is synced in its time.",
        ),
    )


def _flat(few: Series, many: Series, from_count: int, to_count: int) -> Claim:
    """The time at many snapshots, beside the time at few."""
    ratio = many.median / few.median
    return Claim(
        f"Iceberg append at {to_count} snapshots, beside {from_count}",
        Quantity(many.median),
        f"≤ {FLAT:g}× the time",
        ratio <= FLAT,
        few.who,
        Quantity(few.median),
        1 / ratio,
    )
