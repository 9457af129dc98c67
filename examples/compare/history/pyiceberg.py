from pyiceberg.catalog.sql import SqlCatalog

orders = SqlCatalog("lake", uri="sqlite:///catalog.db").load_table("sales.orders")
answer = orders.inspect.snapshots().to_pylist()
