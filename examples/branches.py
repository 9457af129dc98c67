"""Write, audit, publish: another engine works on a branch, and one commit takes it or none."""

import pyarrow as pa
from deltalake import write_deltalake

import lakeward as lw
from lakeward.errors import Conflict

lake = lw.open("./lake")
for name in ("shop.orders", "shop.customers"):
    lake.create(name, {"id": "int64", "v": "string"})
    with lake.transaction() as tx:
        tx.append(name, [{"id": 1, "v": "old"}, {"id": 2, "v": "old"}])

# region: work
branch = lake.branch("load-monday", tables=["shop.orders", "shop.customers"])
orders = branch.table("shop.orders")
write_deltalake(orders.location, pa.table({"id": [3], "v": ["new"]}), mode="append")
print("on the branch:", orders.to_arrow().num_rows)
print("in the lake:", lake.table("shop.orders").to_arrow().num_rows)
# endregion

# region: audit
for table in lake.branch("load-monday").diff():
    print(table.table, table.operations, f"{table.rows_added - table.rows_removed:+}")
assert orders.to_arrow(where="v is null").num_rows == 0
# endregion

# region: publish
result = branch.publish(message="Monday's load")
print(result.versions, lake.table("shop.orders").to_arrow().num_rows, lake.branches())
# endregion

# region: late
late = lake.branch("late", tables=["shop.orders"])
write_deltalake(
    late.table("shop.orders").location, pa.table({"id": [9], "v": ["x"]}), mode="overwrite"
)
with lake.transaction() as tx:
    tx.delete("shop.orders", where="id = 1")
try:
    late.publish()
except Conflict as error:
    print("conflict:", error.kind)
late.drop()
# endregion

# region: clone
lake.clone("shop.orders", "lab.orders", version=1)
with lake.transaction() as tx:
    tx.delete("lab.orders", where="id = 1")
print("clone:", lake.table("lab.orders").to_arrow().column("id").to_pylist())
print("source:", sorted(lake.table("shop.orders").to_arrow().column("id").to_pylist()))
# endregion
