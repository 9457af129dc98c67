"""Many readers while a pipeline writes: no error, and never a part of a run."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession

import lakeward as lw
from lakeward_demo.batches import Shop
from lakeward_demo.shop_pipeline import pipeline

READERS = 50
PAUSE_SECONDS = 0.3


@pytest.mark.full
def test_fifty_readers_see_whole_runs_only(spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop(tmp_path / "landing", 0.02)
    with lw.open(tmp_path / "lake") as lake:
        shop.deliver(0)
        pipeline.run(lake, spark, landing=str(shop.landing))
        done, counts = threading.Event(), set()

        def read(number: int) -> int:
            """A cut over the tables, or a published table as a stranger reads it; until the end."""
            seen = 0
            with lw.open(tmp_path / "lake") as own:
                while not done.is_set() or not seen:
                    if number % 5:
                        with own.snapshot() as cut:
                            versions = {n: cut.table(n).version for n in _TABLES}
                            rows = cut.table("silver.orders").to_arrow(columns=["order_id"])
                        assert len(set(versions.values())) == 1, versions
                        counts.add((versions["silver.orders"], rows.num_rows))
                    else:
                        table = DeltaTable(own.table("silver.orders").location)
                        query = QueryBuilder().register("t", table)
                        rows = query.execute("SELECT count(*) AS n FROM t").read_all()
                        counts.add((table.version(), rows["n"][0].as_py()))
                    seen += 1
                    # Leave the pipeline time to write what they shall see.
                    done.wait(PAUSE_SECONDS)
            return seen

        with ThreadPoolExecutor(READERS) as pool:
            readers = [pool.submit(read, number) for number in range(READERS)]
            try:
                for number in (1, 2):
                    shop.deliver(number)
                    pipeline.run(lake, spark, landing=str(shop.landing))
            finally:
                done.set()
            assert all(reader.result() for reader in readers)
    # One number of rows to a version, whoever read it and when.
    assert len(counts) == len({version for version, _ in counts})


_TABLES = ("bronze.orders", "gold.daily_sales", "silver.customers", "silver.orders")
