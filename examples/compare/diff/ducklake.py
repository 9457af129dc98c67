import duckdb

answer = duckdb.connect("ducklake:lake.ducklake").sql("FROM table_changes('orders', 4, 4)").df()
