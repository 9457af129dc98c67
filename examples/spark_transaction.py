"""One transaction on Spark over a Delta and an Iceberg table."""

import lakeward as lw
from lakeward.errors import ConstraintViolation, UnsupportedFeature
from lakeward.spark import session

# region: session
lake = lw.open("./lake")
spark = session(lake, master="local[2]")
# endregion

# region: tables
positive = {"positive": "amount >= 0"}
lake.create("sales.orders", {"id": "int64", "amount": "double"}, constraints=positive)
lake.create("gold.totals", {"orders": "int64", "amount": "double"}, format="iceberg")
# endregion

# region: sql
changes = spark.createDataFrame([(1, 10.0), (2, 20.0)], "id long, amount double")
changes.createOrReplaceTempView("changes")

with lake.transaction(spark=spark, message="first batch") as tx:
    tx.sql("""MERGE INTO sales.orders AS o USING changes AS c ON o.id = c.id
              WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *""")
    tx.sql("INSERT INTO gold.totals SELECT count(*), sum(amount) FROM sales.orders")
    print("before the commit:", lake.table("gold.totals").to_arrow().num_rows, "rows")

print("after it:", lake.table("gold.totals").to_arrow().to_pylist())
print(dict(sorted(tx.commit().versions.items())))
# endregion

# region: frames
with lake.transaction(spark=spark) as tx:
    orders = tx.read("sales.orders", where="amount > 15")
    tx.append("sales.orders", orders.selectExpr("id + 100 AS id", "amount / 2 AS amount"))
    tx.merge("sales.orders", spark.range(1, 2), on="id", matched="delete", not_matched=None)
    tx.overwrite(
        "gold.totals", tx.sql("SELECT count(*) AS orders, sum(amount) AS amount FROM sales.orders")
    )

print(lake.table("sales.orders").to_arrow().sort_by("id").to_pylist())
print(lake.table("gold.totals").to_arrow().to_pylist())
# endregion

# region: refused
with lake.transaction(spark=spark) as tx:
    try:
        tx.sql("DROP TABLE sales.orders")
    except UnsupportedFeature as error:
        print(error.hint)
# endregion

# region: violation
try:
    with lake.transaction(spark=spark) as tx:
        tx.sql("INSERT INTO gold.totals VALUES (0, 0)")
        tx.sql("INSERT INTO sales.orders VALUES (7, -1.0), (8, -2.0), (9, 3.0)")
except ConstraintViolation as error:
    print(error.constraint, error.count, sorted(row["id"] for row in error.sample))
print([lake.table(name).version for name in ("sales.orders", "gold.totals")])
# endregion

# region: create
with lake.transaction(spark=spark) as tx:
    tx.sql("CREATE TABLE gold.best USING iceberg AS SELECT * FROM sales.orders WHERE amount >= 20")
print(lake.table("gold.best").to_arrow().to_pylist())
# endregion

spark.stop()
lake.close()
