"""A stream in epochs of 10,000 rows, and what its producer waits for.

Each side writes the same rows, and an epoch counts when it is safe on disk: Lakeward syncs before
`commit_epoch` returns; what the others leave to the operating system is synced inside their time.
deltalake records the numbers of the epochs as application transactions, as Lakeward does; DuckLake
and pyiceberg record none. Spark streams the same epochs from files, one a micro-batch, into a Delta
table, and its own measure of a micro-batch is taken; nothing of it is synced.

The producer's part is measured while files are written in the background: batches of 1,000 rows,
files of 100,000. Memory is looked at while the same goes on.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from time import perf_counter

from deltalake import DeltaTable, write_deltalake

import lakeward as lw
from benchmarks.data import SCHEMA, rows
from benchmarks.delta import DeltaWriter
from benchmarks.ducklake import DuckLake
from benchmarks.epochs import Epochs
from benchmarks.pyiceberg_writer import IcebergWriter, create
from benchmarks.result import Claim, Quantity, Result, Series, Settings, below, more
from benchmarks.rounds import by_name, check_arrived, interleave
from benchmarks.scratch import fresh
from benchmarks.spark_stream import micro_batches

ROWS = 10_000
TURN = 10
RATE = 1_500_000
_BATCH = 1_000
_FILE = 100_000
_MEGABYTE = 2**20
_OURS = "Lakeward sink"
_BEHIND = "Lakeward sink, submitted"
_DELTA = "deltalake"
_DUCK = "DuckLake"
_ICEBERG = "pyiceberg"


def run(settings: Settings) -> Result:
    """Commit epochs with both sides in turn; then watch a producer, and its memory."""
    rounds, warm_up = settings.choose(40, 4), settings.choose(3, 1)
    place = fresh(settings.scratch / "sink")
    with lw.open(place / "lake") as lake:
        series, commits = _epochs(lake, place, rounds, warm_up)
        writes, rate = _producer(lake, settings.choose(5000, 500))
        grown = _memory(lake, settings.choose(600, 3))
        streamed = micro_batches(lake, place / "stream", rows(ROWS), settings.choose(40, 3))
    times = by_name(series)
    behind, theirs = _rate(times[_BEHIND]), _rate(times[_DELTA])
    return Result(
        "sink",
        f"epochs of {ROWS:,} rows, one writer",
        [*series, streamed, commits, writes],
        [
            _at_least("sustained, epochs submitted", behind, RATE),
            more("sustained, epochs submitted", behind, _DELTA, theirs, times=4),
            _at_least("sustained, each epoch waited for", _rate(times[_OURS]), RATE),
            below("commit of an epoch, p99", Quantity(commits.p99), Quantity(0.05), "50 ms"),
            below(
                "write of 1,000 rows while files are written, p99",
                Quantity(writes.p99),
                Quantity(0.001),
                "1 ms",
            ),
            below("memory gained", Quantity(grown, "MB"), Quantity(64, "MB"), "64 MB"),
        ],
        (
            f"{rounds} rounds of {TURN} epochs a turn, after {warm_up} rounds of warm-up.",
            "Times are those of a turn, divided.",
            "What a peer does not sync is synced in its time, but for Spark's.",
            f"The producer wrote {rate.value / 1e6:.1f} million rows/s while files were written.",
            f"Memory was watched for {settings.choose(600, 3)} seconds.",
        ),
    )


def _epochs(lake: lw.Lake, place: Path, rounds: int, warm_up: int) -> tuple[list[Series], Series]:
    data = rows(ROWS)
    write_deltalake(str(place / "delta"), data.slice(0, 0))
    delta = DeltaWriter(place / "delta", reuse=True)
    create(place / "iceberg", SCHEMA)
    iceberg = IcebergWriter(place / "iceberg", reuse=True)
    numbers = itertools.count()
    with (
        lake.sink("t", writer_id="bench", schema=SCHEMA) as waiting,
        lake.sink("b", writer_id="bench", schema=SCHEMA) as submitting,
        DuckLake(place / "duck", "duckdb", data) as duck,
    ):
        ours, behind = Epochs(waiting, data, TURN), Epochs(submitting, data, TURN)
        contenders = {
            _OURS: ours.one_by_one,
            _BEHIND: behind.submitted,
            _DELTA: lambda: (
                sum(delta.append(data, epoch=next(numbers)) for _ in range(TURN)) / TURN
            ),
            _DUCK: lambda: sum(duck.append() for _ in range(TURN)) / TURN,
            _ICEBERG: lambda: sum(iceberg.append(data) for _ in range(TURN)) / TURN,
        }
        found = interleave(contenders, rounds=rounds, warm_up=warm_up, writes=True)
        others = {duck.count(), iceberg.count()}
    wanted = ROWS * (rounds + warm_up) * TURN
    tables = [lake.table(name).totals().rows for name in ("t", "b")]
    counts = {*tables, *others, DeltaTable(str(place / "delta")).count()}
    check_arrived(counts, {wanted})
    return found, Series("commit_epoch alone", ours.commits[warm_up * TURN :])


def _producer(lake: lw.Lake, batches: int) -> tuple[Series, Quantity]:
    data = rows(_BATCH)
    taken = []
    with lake.sink("u", writer_id="bench", schema=SCHEMA, flush_rows=_FILE) as sink:
        for _ in range(_FILE // _BATCH):
            sink.write(data)
        sink.commit_epoch(0)
        began = perf_counter()
        for _ in range(batches):
            started = perf_counter()
            sink.write(data)
            taken.append(perf_counter() - started)
        sink.commit_epoch(1)
        rate = batches * _BATCH / (perf_counter() - began)
    if lake.table("u").totals().rows != batches * _BATCH + _FILE:
        message = "not every row arrived"
        raise RuntimeError(message)
    return Series("write of 1,000 rows", taken), Quantity(rate, "rows/s")


def _memory(lake: lw.Lake, seconds: float) -> float:
    """Megabytes gained from after a tenth of the time until its end."""
    data = rows(_BATCH)
    before = 0.0
    with lake.sink("v", writer_id="bench", schema=SCHEMA, flush_rows=_FILE) as sink:
        began = perf_counter()
        for epoch in itertools.count():
            for _ in range(100):
                sink.write(data)
            sink.commit_epoch(epoch)
            passed = perf_counter() - began
            if not before and passed > seconds / 10:
                before = _resident()
            if passed > seconds:
                return max(0.0, _resident() - before)
    raise AssertionError


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / _MEGABYTE


def _rate(source: Series) -> Quantity:
    return Quantity(ROWS * source.rounds / sum(source.seconds), "rows/s")


def _at_least(what: str, ours: Quantity, floor: float) -> Claim:
    return Claim(what, ours, f"≥ {floor / 1e6:g} million/s", ours.value >= floor)
