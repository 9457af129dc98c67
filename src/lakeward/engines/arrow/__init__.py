"""The embedded engine: rows in memory as Arrow, files as Parquet."""
