import duckdb

answer = duckdb.connect("ducklake:lake.ducklake").sql("FROM orders").pl()
