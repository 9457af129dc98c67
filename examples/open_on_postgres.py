"""The log in PostgreSQL, the files in a directory that every host sees.

Give the database as LAKEWARD_LAKE, for example postgresql://user:password@host/database.
"""

import os

import lakeward as lw

with lw.open(os.environ["LAKEWARD_LAKE"], warehouse="./warehouse") as lake:
    lake.create("sales.orders", {"id": "int64"})
    with lake.transaction() as tx:
        tx.append("sales.orders", [{"id": 1}])
    print(dict(tx.commit().versions))

# Any number of hosts may do this at once.
with lw.open(os.environ["LAKEWARD_LAKE"], warehouse="./warehouse") as lake:
    print(lake.table("sales.orders").to_arrow().to_pylist())
