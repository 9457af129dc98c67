"""A pipeline on Spark: landing files become Delta and Iceberg tables, one transaction a run."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import lakeward as lw
from lakeward.errors import ExpectationFailed
from lakeward.pipeline import Pipeline, landing, new, whole
from lakeward.spark import session

# region: pipeline
pipeline = Pipeline("shop")
ORDER = "id int64 not null, sku string, cents int64, at int64"


@pipeline.step("bronze.orders", schema=ORDER)
def bronze(batch=landing("orders")):
    return batch


@pipeline.step(
    "silver.orders",
    schema=ORDER,
    mode="merge",
    key="id",
    latest="at",
    drop={"has a product": "sku IS NOT NULL"},
    expect={"is paid for": "cents >= 0"},
)
def silver(rows=new("bronze.orders")):
    return rows


@pipeline.step(
    "gold.sales",
    schema="sku string not null, cents int64",
    format="iceberg",
    mode="overwrite",
)
def gold(orders=whole("silver.orders")):
    return orders.groupBy("sku").sum("cents").toDF("sku", "cents")


lake = lw.open("./lake")
spark = session(lake)
# endregion


def deliver(name, rows):
    Path("landing/orders").mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), f"landing/orders/{name}.parquet")


# region: run
deliver("monday", [{"id": 1, "sku": "tea", "cents": 400, "at": 1}])
result = pipeline.run(lake, spark, landing="landing")
print(sorted(result.versions.items()))
print(pipeline.run(lake, spark, landing="landing").committed)
# endregion

# region: refused
deliver("tuesday", [{"id": 2, "sku": "cup", "cents": -1, "at": 1}])
try:
    pipeline.run(lake, spark, landing="landing")
except ExpectationFailed as error:
    print(error.what)
print([t.version for t in lake.tables()])
# endregion

# region: mended
deliver("tuesday", [{"id": 2, "sku": "cup", "cents": 900, "at": 1}])
pipeline.run(lake, spark, landing="landing")
print(sorted(lake.table("gold.sales").to_arrow().to_pylist(), key=lambda row: row["sku"]))
# endregion

# region: corrected
deliver("wednesday", [{"id": 1, "sku": "cup", "cents": 400, "at": 2}])
pipeline.run(lake, spark, landing="landing")
print(lake.table("gold.sales").to_arrow().to_pylist())
# endregion

# region: notices
Path("landing/orders/thursday.csv").write_text("id,sku,cents,at\n")
for notice in pipeline.run(lake, spark, landing="landing").notices:
    print(notice.kind, notice.count, notice.sample)
# endregion
spark.stop()
