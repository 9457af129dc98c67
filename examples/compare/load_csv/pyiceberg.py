from pyarrow.csv import read_csv
from pyiceberg.catalog.sql import SqlCatalog

orders = SqlCatalog("lake", uri="sqlite:///catalog.db").load_table("sales.orders")
orders.append(read_csv("new.csv"))
