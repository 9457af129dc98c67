"""Eight processes appending to one table at once, a Delta table and an Iceberg table.

Every process has its imports done, its table open and one append behind it before a barrier lets
all of them go together. Each then commits a fixed number of times, 100 rows a time. An append
that raises is counted as failed and not tried again: deltalake's own retries are left as they
are, and pyiceberg's table is refreshed after a failure, so that the next append may succeed.

The sides take turns as whole runs, each on a fresh table. Versions of our table must have no gap,
in the log and in the published files, and every row must be there: otherwise the benchmark itself
fails.
"""

from __future__ import annotations

import logging
import multiprocessing
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import lakeward as lw
from benchmarks.data import SCHEMA, rows
from benchmarks.result import Claim, Quantity, Result, Series, Settings, below, exactly, more
from benchmarks.scratch import fresh

PROCESSES = 8
ROWS = 100
DELTA = ("Lakeward", "deltalake (location)", "deltalake (DeltaTable kept)")
ICEBERG = ("Lakeward, Iceberg", "pyiceberg")
FEWER = 8
"""How many times fewer commits to Iceberg tables: both sides slow down as history grows."""


@dataclass(frozen=True, slots=True)
class Run:
    """What the processes of one run did.

    Attributes:
        seconds: From the barrier to the last commit of the last process.
        commits: The time of each append that succeeded.
        failures: What the others raised.
    """

    seconds: float
    commits: Sequence[float]
    failures: Sequence[str]

    @property
    def rate(self) -> float:
        """Commits a second."""
        return len(self.commits) / self.seconds


def run(settings: Settings) -> Result:
    """Let every side run in turn, several times."""
    each, repeats = settings.choose(100, 20), settings.choose(3, 1)
    place = fresh(settings.scratch / "concurrent")
    sides = (*DELTA, *ICEBERG)
    runs: dict[str, list[Run]] = {side: [] for side in sides}
    for repeat in range(repeats):
        for number, side in enumerate(sides):
            runs[side].append(_run(side, place / f"{repeat}-{number}", _commits(side, each)))
    lost = {side: sum(len(r.failures) for r in runs[side]) for side in sides}
    slowest = max(t for r in runs["Lakeward"] for t in r.commits)
    return Result(
        "concurrent",
        f"{PROCESSES} processes appending {ROWS} rows at a time to one table",
        [Series(side, [t for r in runs[side] for t in r.commits]) for side in sides],
        [
            _rates("commits per second, 8 processes", runs, DELTA, times=12),
            exactly("failed appends", lost["Lakeward"], 0),
            below("slowest commit", Quantity(slowest), Quantity(0.1), "100 ms"),
            _rates("commits per second, 8 processes, Iceberg", runs, ICEBERG, times=10),
            exactly("failed appends, Iceberg", lost["Lakeward, Iceberg"], 0),
        ],
        (
            f"{repeats} runs of {PROCESSES} × {each} commits a side in turn; the median counts.",
            f"Iceberg tables get {PROCESSES} × {_commits('pyiceberg', each)}, on either side.",
            *(
                f"{side}: {lost[side]} of {PROCESSES * _commits(side, each) * repeats} appends"
                " failed; commits/s by run: " + ", ".join(f"{r.rate:.0f}" for r in runs[side])
                for side in sides
            ),
            "The peers are synced after each commit, inside their time, as in append.",
        ),
    )


def _commits(side: str, each: int) -> int:
    return each // FEWER if side in ICEBERG else each


def _rates(what: str, runs: dict[str, list[Run]], sides: Sequence[str], *, times: float) -> Claim:
    peer = max(sides[1:], key=lambda side: _rate(runs[side]))
    ours = Quantity(_rate(runs[sides[0]]), "/s")
    return more(what, ours, peer, Quantity(_rate(runs[peer]), "/s"), times=times)


def _rate(runs: Sequence[Run]) -> float:
    return sorted(r.rate for r in runs)[len(runs) // 2]


def _run(side: str, place: Path, each: int) -> Run:
    """One side's run on a fresh table."""
    _create(side, place)
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(PROCESSES + 1)
    answers: Any = context.SimpleQueue()
    workers = [
        context.Process(target=_work, args=(side, place, each, barrier, answers))
        for _ in range(PROCESSES)
    ]
    for worker in workers:
        worker.start()
    try:
        barrier.wait(timeout=120)
        started = perf_counter()
        found = [answers.get() for _ in workers]
        taken = perf_counter() - started
    finally:
        for worker in workers:
            worker.join(timeout=60)
    commits = [t for times, _ in found for t in times]
    failures = [text for _, texts in found for text in texts]
    if side.startswith("Lakeward"):
        _check(place, expected=len(commits) + PROCESSES)
    return Run(taken, commits, failures)


def _work(side: str, place: Path, each: int, barrier: Any, answers: Any) -> None:
    """One process: get warm, wait for the others, commit again and again."""
    logging.disable()
    data = rows(ROWS)
    times: list[float] = []
    failures: list[str] = []
    append = _appender(side, place, data)
    _until_it_works(append)
    barrier.wait(timeout=120)
    for _ in range(each):
        try:
            times.append(append())
        except Exception as error:  # noqa: BLE001  whatever it is, it is a failed append
            failures.append(f"{type(error).__name__}: {error}")
    answers.put((times, failures))


def _until_it_works(append: Any) -> None:
    """The append that gets a process warm; others get warm at the same time."""
    for _ in range(50):
        try:
            append()
        except Exception:  # noqa: BLE001  it is not counted
            continue
        return


def _appender(side: str, place: Path, data: Any) -> Any:
    if side.startswith("Lakeward"):
        return _lakeward(side, place, data)
    return _pyiceberg(place, data) if side == "pyiceberg" else _deltalake(side, place, data)


def _create(side: str, place: Path) -> None:
    if side.startswith("Lakeward"):
        with lw.open(place) as lake:
            lake.create("t", SCHEMA, format="iceberg" if "Iceberg" in side else "delta")
        return
    if side == "pyiceberg":
        from benchmarks import pyiceberg_writer

        pyiceberg_writer.create(place, SCHEMA)
        return
    from deltalake import write_deltalake

    write_deltalake(str(place), rows(0))


def _lakeward(_: str, place: Path, data: Any) -> Any:
    lake = lw.open(place)

    def append() -> float:
        started = perf_counter()
        with lake.transaction() as tx:
            tx.append("t", data)
        return perf_counter() - started

    return append


def _deltalake(side: str, place: Path, data: Any) -> Any:
    from benchmarks.delta import DeltaWriter

    writer = DeltaWriter(place, reuse="kept" in side)
    return lambda: writer.append(data)


def _pyiceberg(place: Path, data: Any) -> Any:
    from benchmarks.pyiceberg_writer import IcebergWriter

    writer = IcebergWriter(place, reuse=True)

    def append() -> float:
        try:
            return writer.append(data)
        except Exception:
            writer.refresh()
            raise

    return append


def _check(place: Path, *, expected: int) -> None:
    """Every commit has a version of its own, no version is missing, and every row is there."""
    with lw.open(place, create=False) as lake:
        table = lake.table("t")
        logged = [v.version for v in table.history()]
        counted = table.totals().rows
        published = _published(lake, table)
    wanted = list(range(expected + 1))
    if logged != wanted[::-1] or published != wanted or counted != expected * ROWS:
        message = f"versions have gaps or rows are missing: {len(logged)} of {len(wanted)} versions"
        raise SystemExit(message)


def _published(lake: lw.Lake, table: lw.Table) -> list[int]:
    """The versions that others can read."""
    if table.format == "delta":
        log = Path(table.location) / "_delta_log"
        return sorted(int(f.stem) for f in log.glob("*.json") if f.stem.isdigit())
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("lakeward", uri=f"sqlite:///{lake.warehouse}/lakeward.db")
    snapshots = catalog.load_table("default.t").metadata.snapshots
    told = [s.summary.additional_properties for s in snapshots if s.summary is not None]
    return [0, *(int(t["lakeward.version"]) for t in told)]
