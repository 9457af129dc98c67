"""One transaction over a Delta and an Iceberg table, and pyiceberg on the lake's own catalog."""

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

import lakeward as lw

lake = lw.open("./lake")

# region: commit
lake.create("sales.orders", {"id": "int64", "amount": "double"})
totals = lake.create("sales.totals", {"day": "date", "amount": "double"}, format="iceberg")
with lake.transaction(message="orders and their total") as tx:
    tx.append("sales.orders", [{"id": 1, "amount": 9.5}, {"id": 2, "amount": 20.0}])
    tx.append("sales.totals", pa.table({"day": [None], "amount": [29.5]}, totals.schema.arrow))
print(dict(tx.commit().versions))
# endregion

# region: stranger
catalog = SqlCatalog("lakeward", uri="sqlite:///lake/lakeward.db")
table = catalog.load_table("sales.totals")
told = table.current_snapshot().summary
print(table.scan().to_arrow().to_pylist(), told["lakeward.transaction-id"] == tx.transaction_id)

table.append(pa.table({"day": [None], "amount": [1.0]}, table.schema().as_arrow()))
for version in totals.history(limit=2):
    print(version.version, version.operation, version.adopted)
# endregion

# region: cut
with lake.snapshot(at=tx.transaction_id) as cut:
    print({t.name: (t.version, t.to_arrow().num_rows) for t in cut})
    snapshot_id = cut.table("sales.totals").snapshot_id
print(table.scan(snapshot_id=snapshot_id).to_arrow().num_rows)
catalog.close()
# endregion
