import duckdb

duckdb.connect("ducklake:lake.ducklake").execute("INSERT INTO orders FROM 'new.csv'")
