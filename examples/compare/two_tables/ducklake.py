import duckdb

lake = duckdb.connect("ducklake:lake.ducklake")
lake.begin()
lake.execute("INSERT INTO orders FROM 'new.csv'")
lake.execute("INSERT INTO sums FROM 'sums.csv'")
lake.commit()
