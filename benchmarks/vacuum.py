"""The plan of a vacuum of a table with very many files and versions.

The log is made as in `benchmarks.logs`, and each of its files exists and is empty: a plan lists the
directory and looks at the files that it would delete, but reads none. A tenth of the files were
removed by later versions, and are to be deleted.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path
from time import perf_counter, process_time

import lakeward as lw
from benchmarks.logs import ManyFiles
from benchmarks.result import Quantity, Result, Series, Settings, below
from benchmarks.rounds import check_arrived
from benchmarks.scratch import fresh
from lakeward.context import context_of
from lakeward.log import files, heads
from lakeward.model.names import TableName

_LIMIT_SECONDS = 5.0
_REMOVED = 10
"""One version in so many has its files removed by the next one."""


def run(settings: Settings) -> Result:
    """Plan several times, without deleting anything."""
    shape = ManyFiles(settings.choose(10_000, 500), 100)
    rounds = settings.choose(5, 2)
    place = fresh(settings.scratch / "vacuum")
    seconds: list[float] = []
    cpu: list[float] = []
    with lw.open(place / "lake") as lake:
        removed = _fill(lake, shape)
        table = lake.table("t")
        for _ in range(rounds):
            started, worked = perf_counter(), process_time()
            found = table.vacuum(retention="0s", force=True, dry_run=True).plan.files
            seconds.append(perf_counter() - started)
            cpu.append(process_time() - worked)
            check_arrived(found, removed)
    series = [Series("Lakeward", seconds), Series("Lakeward, CPU time", cpu)]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return Result(
        "vacuum",
        f"plan of a vacuum of {shape.files:,} files and {shape.versions:,} versions",
        series,
        [below("plan", Quantity(series[0].median), Quantity(_LIMIT_SECONDS), "5 s")],
        (f"{rounds} rounds, in a process of at most {peak:,} MB; {removed:,} files to delete.",),
    )


def _fill(lake: lw.Lake, shape: ManyFiles) -> int:
    """Make the table and its files; return how many of them later versions removed."""
    shape.insert(lake, "t")
    place, removed = Path(lake.table("t").location), 0
    with context_of(lake).database.write() as session:
        head = heads.get(session, TableName.parse("t"))
        for version in range(1, shape.versions, _REMOVED):
            gone = files.added_at(session, head.table_id, version)
            removed += files.remove(session, head.table_id, version + 1, gone)
    for path in shape.paths():
        os.close(os.open(place / path, os.O_CREAT | os.O_WRONLY))
    return removed
