"""Structured Streaming into two tables of both formats, each micro-batch one transaction."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import lakeward as lw
from lakeward.spark import read_stream, session, sink

lake = lw.open("./lake")
spark = session(lake)
lake.create("events", "id int64, name string")
lake.create("latest", "id int64, name string", format="iceberg")


def deliver(name, rows):
    Path("landing").mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), f"landing/{name}.parquet")


# region: write
def write(tx, rows):
    tx.append("events", rows)
    tx.merge("latest", rows, on="id")


def run():
    query = (
        spark.readStream.schema("id BIGINT, name STRING")
        .option("maxFilesPerTrigger", 1)
        .parquet("landing")
        .writeStream.foreachBatch(sink(lake, write, query="events"))
        .option("checkpointLocation", "checkpoints/events")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


deliver("a", [{"id": 1, "name": "one"}])
run()
deliver("b", [{"id": 1, "name": "uno"}])
run()
print(lake.table("events").to_arrow().num_rows, lake.table("latest").to_arrow().to_pylist())
# endregion

# region: replayed
# As if the driver had died after the commit, before Spark noted that batch 1 was done.
for file in Path("checkpoints/events/commits").glob("*1*"):
    file.unlink()
run()
print(lake.table("events").version)
# endregion

# region: source
lake.create("copy", "id int64, name string")
copied = read_stream(lake, spark, "events").writeStream.foreachBatch(
    sink(lake, "copy", query="copy")
)
copied.option("checkpointLocation", "checkpoints/copy").trigger(
    availableNow=True
).start().awaitTermination()
print(lake.table("copy").to_arrow().num_rows)
# endregion
spark.stop()
