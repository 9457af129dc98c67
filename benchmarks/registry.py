"""All benchmarks by name, in the order in which they run."""

from __future__ import annotations

from benchmarks import (
    append,
    concurrent,
    iceberg,
    merge,
    plan,
    scan,
    sink,
    spark,
    tables,
    timestamp,
)
from benchmarks.result import Benchmark

BENCHMARKS: dict[str, Benchmark] = {
    "append": append.run,
    "tables": tables.run,
    "iceberg": iceberg.run,
    "concurrent": concurrent.run,
    "sink": sink.run,
    "merge": merge.run,
    "plan": plan.run,
    "timestamp": timestamp.run,
    "scan": scan.run,
    "spark": spark.run,
}
