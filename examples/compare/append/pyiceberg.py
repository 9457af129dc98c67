import pandas as pd
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

df = pd.DataFrame({"id": [3, 4], "amount": [30.0, 40.0]})
orders = SqlCatalog("lake", uri="sqlite:///catalog.db").load_table("sales.orders")
orders.append(pa.Table.from_pandas(df))
