"""Tables of both formats on S3; the environment says how it is reached.

Set LAKEWARD_WAREHOUSE to a place such as s3://bucket/prefix, and AWS_ACCESS_KEY_ID,
AWS_SECRET_ACCESS_KEY, AWS_REGION or AWS_PROFILE as AWS's own tools take them.
"""

import os

from deltalake import DeltaTable
from pyiceberg.table import StaticTable

import lakeward as lw

lake = lw.open("./lake", warehouse=os.environ["LAKEWARD_WAREHOUSE"])
orders = lake.create("sales.orders", {"id": "int64", "amount": "double"})
customers = lake.create("sales.customers", {"id": "int64"}, format="iceberg")
with lake.transaction() as tx:
    tx.append("sales.orders", [{"id": 1, "amount": 9.5}, {"id": 2, "amount": 3.0}])
    tx.append("sales.customers", [{"id": 7}])

print(dict(tx.commit().versions))

found = DeltaTable(orders.location, storage_options=lake.storage_options("delta"))
print("delta-rs:", found.version(), found.count())

properties = lake.storage_options("iceberg")
found = StaticTable.from_metadata(customers.metadata_location, properties)
print("pyiceberg:", found.scan().count())
