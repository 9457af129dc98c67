import polars as pl

answer = pl.read_delta("orders")
