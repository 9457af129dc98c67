"""A driver that streams landed files into two tables, and may be killed on the way.

Run as `python -m tests.support.stream_driver LAKE LANDING CHECKPOINT STEP TIMES`. It takes in all
that has landed, one file to a micro-batch, and dies when it reaches the step for the so-manieth
time.
"""

from __future__ import annotations

import sys
from typing import Any

import lakeward as lw
from lakeward.spark import session, sink
from tests.support.processes import kill_myself_at
from tests.support.sparks import CONF


def main(target: str, landing: str, checkpoint: str, step: str, times: int) -> None:
    def write(tx: Any, rows: Any) -> None:
        tx.append("events", rows)
        tx.append("copies", rows)

    with lw.open(target) as lake:
        spark = session(lake, master="local[2]", **CONF)
        spark.sparkContext.setLogLevel("ERROR")
        if step:
            kill_myself_at(step, times)
        query = (
            spark.readStream.schema("id BIGINT, batch BIGINT")
            .option("maxFilesPerTrigger", 1)
            .parquet(landing)
            .writeStream.foreachBatch(sink(lake, write, query="events"))
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))
