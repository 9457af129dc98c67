import duckdb
import pandas as pd

df = pd.DataFrame({"id": [2, 3], "amount": [25.0, 30.0]})
sql = "MERGE INTO orders USING df USING (id) WHEN MATCHED THEN UPDATE WHEN NOT MATCHED THEN INSERT"
duckdb.connect("ducklake:lake.ducklake").execute(sql)
