"""Lineage of Spark from analysed plans: statements, frames and pipelines, against brute force."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  as Spark's users do

import lakeward as lw
from lakeward.model.lineage.graph import Lineage
from lakeward.pipeline import Pipeline as Steps
from lakeward.pipeline import landing, new
from tests.behaviour.lineage.test_lineage_truth import FORMATS, Tally, reported
from tests.support.random_pipelines import (
    COLUMNS,
    MADE,
    Pipeline,
    pipeline,
    query,
    sources,
    truth,
    truth_of_query,
)

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
Edge = tuple[str, str, str]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[lw.Lake]:
    rng = random.Random(5)
    with lw.open(tmp_path / "lake") as opened:
        for (name, rows), format_ in zip(sources(rng).items(), FORMATS, strict=True):
            schema = dict.fromkeys(COLUMNS[name], "int64")
            opened.create(name, schema, format=format_).append(rows)
        yield opened


def made(lake: lw.Lake, name: str, columns: tuple[str, ...] = MADE, format_: str = "delta") -> None:
    lake.create(name, dict.fromkeys(columns, "int64"), format=format_)


def said(found: Lineage) -> set[Edge]:
    """The edges as texts: source, kind, target."""
    edges = found.columns if found.root and found.root.column else found.edges
    return {(Path(str(e.source)).name, e.kind.value, str(e.target)) for e in edges}


def of(lake: lw.Lake, table: str, column: str | None = None) -> set[Edge]:
    return said(lake.table(table).lineage(column=column, depth=1))


def test_statements_are_known_by_the_columns_that_change_the_target(
    lake: lw.Lake, spark: SparkSession
) -> None:
    rng = random.Random(5)
    for format_, run in RUNS:
        made(lake, run.out, format_=format_)
        with lake.transaction(spark=spark) as tx:
            for statement in run.statements:
                tx.sql(statement)
        found = [reported(lake, run.out, column) for column in MADE]
        assert truth(rng, run, found) == found, run


def test_frames_are_known_by_columns(lake: lw.Lake, spark: SparkSession) -> None:
    made(lake, "t", ("id", "value"))
    made(lake, "u", ("id", "value"), "iceberg")
    with lake.transaction(spark=spark) as tx:
        one, two = tx.read("s1"), tx.read("s2")
        rows = one.join(two, one["k"] == two["k"]).where(one["b"] > 2)
        rows = rows.groupBy(one["a"].alias("id")).agg(F.max(two["x"] + one["c"]).alias("value"))
        tx.append("t", rows)
        tx.overwrite("u", tx.read("s1").select(F.col("a").alias("id"), F.lit(1).alias("value")))
    deciding = {("s1.a", "rows"), ("s1.k", "rows"), ("s2.k", "rows"), ("s1.b", "rows")}
    assert of(lake, "t", "value") == {
        (source, kind, "t.value")
        for source, kind in deciding | {("s2.x", "value"), ("s1.c", "value")}
    }
    assert of(lake, "t") == {("s1", "value", "t"), ("s2", "value", "t")}
    assert of(lake, "u", "id") == {("s1.a", "value", "u.id")}
    assert of(lake, "u", "value") == {("s1", "rows", "u.value")}


def test_an_order_below_a_filter_decides_which_rows_are_taken(
    lake: lw.Lake, spark: SparkSession
) -> None:
    made(lake, "t", ("id",))
    with lake.transaction(spark=spark) as tx:
        rows = tx.read("s1").orderBy("a").where("b >= 0").limit(3)
        tx.append("t", rows.select(F.col("k").alias("id")))
    assert of(lake, "t", "id") == {
        ("s1.k", "value", "t.id"),
        ("s1.a", "rows", "t.id"),
        ("s1.b", "rows", "t.id"),
    }


def test_views_functions_and_statements_of_one_transaction_are_followed(
    lake: lw.Lake, spark: SparkSession
) -> None:
    made(lake, "t", ("id", "value"))
    made(lake, "u", ("id", "value"), "iceberg")
    with lake.transaction(spark=spark) as tx:
        rows = tx.read("s1").where("k IS NOT NULL").groupBy("k").agg(F.max("a").alias("a"))
        rows.createOrReplaceTempView("some_rows")
        tx.sql("INSERT INTO t SELECT k, e FROM some_rows LATERAL VIEW explode(array(a, k)) AS e")
        tx.sql("INSERT INTO u SELECT id, max(value) FROM t GROUP BY id")
        tx.sql(
            "MERGE INTO u USING some_rows AS s ON u.id = s.k WHEN MATCHED THEN UPDATE SET"
            " value = s.a WHEN NOT MATCHED THEN INSERT (id, value) VALUES (s.k, 0)"
        )
        tx.sql("CREATE TABLE v USING iceberg AS SELECT value AS top FROM u WHERE id > 1")
    assert {("s1.a", "value", "t.value"), ("s1.k", "value", "t.value")} <= of(lake, "t", "value")
    assert of(lake, "u", "value") == {
        ("t.value", "value", "u.value"),
        ("t.id", "rows", "u.value"),
        ("s1.a", "value", "u.value"),
        ("s1.k", "rows", "u.value"),
        ("s1.k", "condition", "u.value"),
        ("u.id", "rows", "u.value"),
        ("u.id", "condition", "u.value"),
    }
    assert ("u.value", "value", "v.top") in of(lake, "v", "top")
    # The tables were written by one transaction, and each is a source as that transaction made it.
    whole = said(lake.table("v").lineage())
    assert {("s1", "value", "t"), ("t", "value", "u"), ("u", "value", "v")} <= whole
    below = said(lake.table("s1").lineage(direction="downstream", column="a"))
    assert ("u.value", "value", "v.top") in below


def test_rows_that_come_and_go_in_one_transaction_pass_their_sources_on(
    lake: lw.Lake, spark: SparkSession
) -> None:
    made(lake, "mid", ("id",))
    made(lake, "out", ("n",))
    with lake.transaction(spark=spark) as tx:
        tx.sql("INSERT INTO mid SELECT k FROM s1 WHERE a > 0")
        tx.sql("INSERT INTO out SELECT count(*) FROM mid")
        tx.sql("DELETE FROM mid")
    assert lake.table("mid").version == 0
    found = said(lake.table("out").lineage(column="n"))
    assert {("mid", "rows", "out.n"), ("s1.a", "rows", "mid")} <= found


def test_merged_frames_files_and_rows_from_memory(
    lake: lw.Lake, spark: SparkSession, tmp_path: Path
) -> None:
    made(lake, "t", ("id", "value"))
    made(lake, "u", ("id", "value"))
    pq.write_table(pa.table({"id": [1, 2], "number": [3, 4]}), tmp_path / "one.parquet")
    with lake.transaction(spark=spark) as tx:
        read = tx.spark.read.parquet(str(tmp_path / "one.parquet"))
        rows = read.withColumnRenamed("number", "value").union(tx.read("s1").select("k", "b"))
        tx.merge("t", rows.dropDuplicates(["id"]), on="id")
        tx.append("u", tx.spark.createDataFrame([(1, 2)], "id long, value long"))
    assert {
        ("one.parquet.number", "value", "t.value"),
        ("s1.b", "value", "t.value"),
        ("one.parquet.id", "condition", "t.value"),
        ("t.id", "condition", "t.value"),
    } <= of(lake, "t", "value")
    assert of(lake, "t") == {("one.parquet", "value", "t"), ("s1", "value", "t")}
    assert of(lake, "u") == {("unknown", "unknown", "u")}


def test_a_plan_that_is_not_understood_says_so(lake: lw.Lake, spark: SparkSession) -> None:
    made(lake, "t", ("k", "a"))
    with lake.transaction(spark=spark) as tx:
        rows = tx.read("s1").select("k", "a").mapInPandas(lambda parts: parts, "k long, a long")
        tx.append("t", rows)
    assert ("s1", "unknown", "t") in of(lake, "t")
    assert ("s1", "unknown", "t.a") in of(lake, "t", "a")


def test_steps_of_a_pipeline_are_known_by_columns(tmp_path: Path, spark: SparkSession) -> None:
    place = tmp_path / "landing"
    (place / "sales").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1, 2], "amount": [3, 4]}), place / "sales" / "one.parquet")
    steps = Steps("shop")

    @steps.step("bronze.sales", schema="id int64, amount int64")
    def bronze(batch: Any = landing("sales")) -> Any:
        return batch

    @steps.step("silver.sales", schema="id int64, amount int64", mode="merge", key="id")
    def silver(batch: Any = new("bronze.sales")) -> Any:
        return batch.where("amount > 0")

    @steps.step("gold.total", schema="total int64", format="iceberg")
    def gold(batch: Any = new("silver.sales")) -> Any:
        return batch.groupBy().sum("amount").withColumnRenamed("sum(amount)", "total")

    with lw.open(tmp_path / "lake") as lake:
        steps.run(lake, spark, landing=str(place))
        assert said(lake.table("gold.total").lineage()) == {
            ("silver.sales", "value", "gold.total"),
            ("bronze.sales", "value", "silver.sales"),
            ("one.parquet", "value", "bronze.sales"),
        }
        columns = said(lake.table("gold.total").lineage(column="total"))
        assert {
            ("silver.sales.amount", "value", "gold.total.total"),
            ("bronze.sales.amount", "value", "silver.sales.amount"),
            ("one.parquet.amount", "value", "bronze.sales.amount"),
        } <= columns
        below = lake.table("bronze.sales").lineage(direction="downstream").edges
        assert {e.target.name for e in below} == {"silver.sales", "gold.total"}


@pytest.mark.full
def test_random_pipelines_on_spark_miss_nothing(lake: lw.Lake, spark: SparkSession) -> None:
    rng, tally = random.Random(6), Tally()
    for number in range(30):
        run = pipeline(rng, f"r{number}")
        for name in run.tables:
            made(lake, name, format_=FORMATS[number % 2])
        with lake.transaction(spark=spark) as tx:
            for statement in run.statements:
                tx.sql(statement)
        if lake.table(run.out).version == 0:
            # No rows came out of it, so nothing was committed.
            continue
        found = [reported(lake, run.out, column) for column in MADE]
        tally.add(found, truth(rng, run, found), run)
    tally.check(0.1)


@pytest.mark.full
def test_random_frames_on_spark_miss_nothing(lake: lw.Lake, spark: SparkSession) -> None:
    rng, tally = random.Random(7), Tally()
    for number in range(60):
        text, out = query(rng, correlated=True), f"f{number}"
        made(lake, out, format_=FORMATS[number % 2])
        with lake.transaction(spark=spark) as tx:
            tx.append(out, tx.sql(text))
        if lake.table(out).version == 0:
            continue
        found = [reported(lake, out, column) for column in MADE]
        tally.add(found, truth_of_query(rng, text, found), text)
    tally.check(0.1)
