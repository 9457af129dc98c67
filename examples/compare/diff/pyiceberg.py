from pyiceberg.catalog.sql import SqlCatalog

orders = SqlCatalog("lake", uri="sqlite:///catalog.db").load_table("sales.orders")
first, second = (snapshot.snapshot_id for snapshot in orders.history()[-2:])
before = orders.scan(snapshot_id=first).to_pandas()
after = orders.scan(snapshot_id=second).to_pandas()
answer = before.merge(after, how="outer", indicator=True)
