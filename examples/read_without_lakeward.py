"""Whoever reads Delta reads the lake's tables: no plug-in, no server, no Lakeward."""

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

import lakeward as lw

lake = lw.open("./lake")
orders = lake.create("sales.orders", {"id": "int64", "amount": "double"})
with lake.transaction() as tx:
    tx.append("sales.orders", [{"id": 1, "amount": 9.5}, {"id": 2, "amount": 20.0}])
print(orders.location.endswith("/lake/sales/orders"))

# region: strangers
table = DeltaTable("./lake/sales/orders")
answer = QueryBuilder().register("orders", table).execute("SELECT sum(amount) AS s FROM orders")
print(table.version(), pa.table(answer).to_pylist())

print(pl.read_delta("./lake/sales/orders").sort("id").rows())
# endregion
