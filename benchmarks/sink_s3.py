"""A stream in epochs of 10,000 rows into an S3 server on this machine, beside deltalake.

The server is the one of the tests, which keeps its objects as files. Both sides put their data
file and their log entry there; Lakeward's log is in SQLite on this machine's disk, synced.
"""

from __future__ import annotations

import itertools
import os
from time import perf_counter

from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

import lakeward as lw
from benchmarks.data import SCHEMA, rows
from benchmarks.epochs import Epochs
from benchmarks.result import Claim, Quantity, Result, Series, Settings, below, more
from benchmarks.rounds import by_name, check_arrived, interleave
from benchmarks.scratch import fresh

ROWS = 10_000
TURN = 10
RATE = 250_000
_OURS = "Lakeward sink on S3"
_BEHIND = "Lakeward sink on S3, submitted"
_DELTA = "deltalake on S3"


def run(settings: Settings) -> Result:
    """Commit epochs with both sides in turn."""
    from tests.support.s3 import S3Server

    rounds, warm_up = settings.choose(20, 2), settings.choose(3, 1)
    data = rows(ROWS)
    place = fresh(settings.scratch / "sink-s3")
    numbers = itertools.count()
    with S3Server() as server:
        bucket, options = server.bucket(), server.options()
        # deltalake looks for the region and the address of credentials in the environment too.
        os.environ.update(options)
        location = f"s3://{bucket}/delta"
        write_deltalake(location, data.slice(0, 0), storage_options=options)
        table = DeltaTable(location, storage_options=options)
        with (
            lw.open(
                place / "lake", warehouse=f"s3://{bucket}/lake", storage_options=options
            ) as lake,
            lake.sink("t", writer_id="bench", schema=SCHEMA) as waiting,
            lake.sink("b", writer_id="bench", schema=SCHEMA) as submitting,
        ):
            ours, behind = Epochs(waiting, data, TURN), Epochs(submitting, data, TURN)

            def theirs() -> float:
                started = perf_counter()
                for _ in range(TURN):
                    counted = [Transaction("bench", next(numbers))]
                    properties = CommitProperties(app_transactions=counted)
                    write_deltalake(table, data, mode="append", commit_properties=properties)
                return (perf_counter() - started) / TURN

            contenders = {_OURS: ours.one_by_one, _BEHIND: behind.submitted, _DELTA: theirs}
            series = interleave(contenders, rounds=rounds, warm_up=warm_up, writes=True)
            wanted = ROWS * (rounds + warm_up) * TURN
            counts = {lake.table(n).totals().rows for n in ("t", "b")} | {table.count()}
    check_arrived(counts, {wanted})
    times, committed = by_name(series), Series("commit_epoch alone", ours.commits[warm_up * TURN :])
    behind_rate, theirs_rate = _rate(times[_BEHIND]), _rate(times[_DELTA])
    return Result(
        "sink-s3",
        f"epochs of {ROWS:,} rows, one writer, an S3 server on loopback",
        [*series, committed],
        [
            Claim(
                "sustained, epochs submitted",
                behind_rate,
                f"≥ {RATE:,} rows/s",
                behind_rate.value >= RATE,
            ),
            more("sustained, epochs submitted", behind_rate, _DELTA, theirs_rate, times=1),
            below("commit of an epoch, p99", Quantity(committed.p99), Quantity(0.5), "500 ms"),
        ],
        (f"{rounds} rounds of {TURN} epochs a turn, after {warm_up} rounds of warm-up.",),
    )


def _rate(source: Series) -> Quantity:
    return Quantity(ROWS * source.rounds / sum(source.seconds), "rows/s")
