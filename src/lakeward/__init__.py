"""Lakeward keeps the transaction log of Delta and Iceberg tables in a database."""
