"""Spark Structured Streaming as a contender: files of rows, one a micro-batch, into Delta."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import lakeward as lw
from benchmarks.result import Series
from benchmarks.scratch import fresh

ROOT = Path(__file__).parents[1]
_WARM_UP = 5


def micro_batches(lake: lw.Lake, place: Path, data: pa.Table, count: int) -> Series:
    """What Spark itself measures of each micro-batch, from looking for news to its commit."""
    os.environ.setdefault("LAKEWARD_CACHE", str(ROOT / ".jars"))
    from lakeward.spark import session

    incoming = fresh(place) / "incoming"
    incoming.mkdir(parents=True)
    for number in range(_WARM_UP + count):
        pq.write_table(data, incoming / f"{number:05d}.parquet")
    spark = session(lake, master="local[2]", **{"spark.ui.showConsoleProgress": False})
    try:
        spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", str(_WARM_UP + count + 10))
        rows = spark.read.parquet(str(incoming))
        query = (
            spark.readStream.schema(rows.schema)
            .option("maxFilesPerTrigger", 1)
            .parquet(str(incoming))
            .writeStream.format("delta")
            .option("checkpointLocation", str(place / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(place / "table"))
        )
        query.awaitTermination()
        taken = [_seconds(p) for p in query.recentProgress if p["numInputRows"]]
        found = spark.read.format("delta").load(str(place / "table")).count()
    finally:
        spark.stop()
    if found != data.num_rows * (_WARM_UP + count) or len(taken) != _WARM_UP + count:
        message = f"not every row arrived: {found} in {len(taken)} micro-batches"
        raise RuntimeError(message)
    return Series("Spark Structured Streaming", taken[_WARM_UP:])


def _seconds(progress: Any) -> float:
    return float(progress["durationMs"]["triggerExecution"]) / 1000
