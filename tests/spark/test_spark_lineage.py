"""Lineage of Spark: statements by columns as brute force finds them, frames, and pipelines."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import lakeward as lw
from lakeward.pipeline import Pipeline as Steps
from lakeward.pipeline import landing, new
from tests.behaviour.lineage.test_lineage_truth import reported
from tests.support.random_pipelines import COLUMNS, MADE, Pipeline, sources, truth

GROUPED = """INSERT INTO g_out
    WITH w AS (SELECT p.a AS c0, q.x AS c1 FROM s1 p JOIN s2 q ON p.k = q.k)
    SELECT c0, max(c1) AS c1 FROM w GROUP BY c0"""
WINDOWED = """INSERT INTO w_out SELECT r.b AS c0, r.n AS c1 FROM
    (SELECT p.*, rank() OVER (PARTITION BY p.k ORDER BY p.c) AS n FROM s1 p) r WHERE r.n < 4"""
FIRST = "INSERT INTO m_out SELECT p.k AS c0, sum(p.c) AS c1 FROM s1 p GROUP BY p.k"
MERGED = """MERGE INTO m_out AS t USING
    (SELECT q.k AS c0, max(q.x) AS c1 FROM s2 q GROUP BY q.k) AS s ON t.c0 = s.c0
    WHEN MATCHED AND s.c1 > 7 THEN DELETE
    WHEN MATCHED THEN UPDATE SET c1 = s.c1
    WHEN NOT MATCHED THEN INSERT (c0, c1) VALUES (s.c0, s.c1)"""
RUNS = (
    ("delta", Pipeline(("g_out",), (GROUPED,))),
    ("iceberg", Pipeline(("w_out",), (WINDOWED,))),
    ("delta", Pipeline(("m_out",), (FIRST, MERGED))),
)


def test_statements_are_known_by_the_columns_that_change_the_target(
    tmp_path: Path, spark: SparkSession
) -> None:
    rng = random.Random(5)
    with lw.open(tmp_path / "lake") as lake:
        for name, rows in sources(rng).items():
            lake.create(name, dict.fromkeys(COLUMNS[name], "int64")).append(rows)
        for format_, run in RUNS:
            lake.create(run.out, dict.fromkeys(MADE, "int64"), format=format_)
            with lake.transaction(spark=spark) as tx:
                for statement in run.statements:
                    tx.sql(statement)
            said = [reported(lake, run.out, column) for column in MADE]
            assert truth(rng, run, said) == said, run


def test_a_frame_is_a_row_source_of_what_its_transaction_read(
    tmp_path: Path, spark: SparkSession
) -> None:
    with lw.open(tmp_path / "lake") as lake:
        lake.create("s", {"id": "int64"}).append([{"id": 1}])
        lake.create("t", {"id": "int64"})
        with lake.transaction(spark=spark) as tx:
            tx.append("t", tx.sql("SELECT id + 1 AS id FROM s"))
        edges = {(e.source.name, e.kind.value) for e in lake.table("t").lineage(depth=1).edges}
        assert edges == {("s", "read")}


def test_a_pipeline_declares_files_and_tables_of_each_step(
    tmp_path: Path, spark: SparkSession
) -> None:
    place = tmp_path / "landing"
    (place / "sales").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1, 2], "amount": [3, 4]}), place / "sales" / "one.parquet")
    steps = Steps("shop")

    @steps.step("bronze.sales", schema="id int64, amount int64")
    def bronze(batch: Any = landing("sales")) -> Any:
        return batch

    @steps.step("gold.total", schema="total int64", format="iceberg")
    def gold(batch: Any = new("bronze.sales")) -> Any:
        return batch.groupBy().sum("amount").withColumnRenamed("sum(amount)", "total")

    with lw.open(tmp_path / "lake") as lake:
        steps.run(lake, spark, landing=str(place))
        edges = lake.table("gold.total").lineage().edges
        found = {(Path(e.source.name).name, e.kind.value, e.target.name) for e in edges}
        assert found == {
            ("bronze.sales", "declared", "gold.total"),
            ("one.parquet", "declared", "bronze.sales"),
        }
        below = lake.table("bronze.sales").lineage(direction="downstream").edges
        assert [e.target.name for e in below] == ["gold.total"]
