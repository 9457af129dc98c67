"""A driver that takes changes of a table through a pipeline and a stream, and may be killed.

Run as `python -m tests.support.changes_driver LAKE CHECKPOINT STEP TIMES`. It takes in all changes
that there are, and dies when it reaches the step for the so-manieth time.
"""

from __future__ import annotations

import sys
from typing import Any

import lakeward as lw
from lakeward.pipeline import Pipeline, changes
from lakeward.spark import read_stream, session, sink
from tests.support.processes import kill_myself_at
from tests.support.sparks import CONF

SEEN = "id int64, v int64, kind string, version int64"
_LOGGED = ("id", "v", "_change_type AS kind", "_commit_version AS version")


def pipeline() -> Pipeline:
    """A copy of the orders, and a log of their changes."""
    made = Pipeline("copies")

    @made.step("gold.orders", schema="id int64 not null, v int64", mode="apply", key="id")
    def copy(moved: Any = changes("silver.orders", key="id")) -> Any:
        return moved

    @made.step("gold.log", schema=SEEN, format="iceberg")
    def log(moved: Any = changes("silver.orders", key="id")) -> Any:
        return moved.selectExpr(*_LOGGED)

    return made


def main(target: str, checkpoint: str, step: str, times: int) -> None:
    with lw.open(target) as lake:
        spark = session(lake, master="local[2]", **CONF)
        spark.sparkContext.setLogLevel("ERROR")
        if step:
            kill_myself_at(step, times)
        pipeline().run(lake, spark)

        def write(tx: Any, rows: Any) -> None:
            tx.append("gold.seen", rows.selectExpr(*_LOGGED))

        query = (
            read_stream(lake, spark, "silver.orders", changes=True, key="id")
            .writeStream.foreachBatch(sink(lake, write, query="seen"))
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
