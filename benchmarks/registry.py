"""All benchmarks by name, in the order in which they run."""

from __future__ import annotations

from benchmarks import (
    append,
    concurrent,
    iceberg,
    mapped,
    merge,
    pipeline,
    plan,
    scan,
    sink,
    sink_s3,
    spark,
    tables,
    timestamp,
    unique,
)
from benchmarks.result import Benchmark

BENCHMARKS: dict[str, Benchmark] = {
    "append": append.run,
    "tables": tables.run,
    "iceberg": iceberg.run,
    "concurrent": concurrent.run,
    "sink": sink.run,
    "sink-s3": sink_s3.run,
    "merge": merge.run,
    "plan": plan.run,
    "timestamp": timestamp.run,
    "scan": scan.run,
    "mapped": mapped.run,
    "unique": unique.run,
    "spark": spark.run,
    "pipeline": pipeline.run,
}
