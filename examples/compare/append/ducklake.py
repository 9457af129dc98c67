import duckdb
import pandas as pd

df = pd.DataFrame({"id": [3, 4], "amount": [30.0, 40.0]})
duckdb.connect("ducklake:lake.ducklake").execute("INSERT INTO orders FROM df")
