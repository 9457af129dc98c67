import pandas as pd
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

df = pd.DataFrame({"id": [2, 3], "amount": [25.0, 30.0]})
orders = SqlCatalog("lake", uri="sqlite:///catalog.db").load_table("sales.orders")
orders.upsert(pa.Table.from_pandas(df), join_cols=["id"])
