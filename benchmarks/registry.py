"""All benchmarks by name, in the order in which they run."""

from __future__ import annotations

from benchmarks import (
    alter,
    append,
    cache,
    changes,
    concurrent,
    history,
    iceberg,
    layout,
    mapped,
    merge,
    observing,
    pipeline,
    plan,
    scan,
    sink,
    sink_s3,
    spark,
    sql,
    steady,
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
    "history": history.run,
    "changes": changes.run,
    "mapped": mapped.run,
    "alter": alter.run,
    "unique": unique.run,
    "sql": sql.run,
    "cache": cache.run,
    "observing": observing.run,
    "layout": layout.run,
    "steady": steady.run,
    "spark": spark.run,
    "pipeline": pipeline.run,
}
