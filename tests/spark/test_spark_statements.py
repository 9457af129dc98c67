"""Statements as Spark users write them: typos, views that come later, parameters, frames."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import pandas_udf

import lakeward as lw
from lakeward.errors import InvalidInput, LakewardError, SchemaMismatch, UnsupportedFeature
from lakeward.spark import sink
from lakeward.write.transaction.transaction import Transaction

BOTH = pytest.mark.parametrize("table_format", ["delta", "iceberg"])


@pytest.fixture
def lake(tmp_path: Path) -> Generator[lw.Lake]:
    with lw.open(tmp_path / "lake") as opened:
        yield opened


def make(lake: lw.Lake, table_format: str = "delta", rows: int = 3) -> lw.Table:
    table = lake.create("t", {"id": "int64", "v": "string"}, format=table_format)
    with lake.transaction() as tx:
        tx.append("t", [{"id": n, "v": f"v{n}"} for n in range(rows)])
    return table


def ids(table: lw.Table) -> list[int]:
    return sorted(table.to_arrow().column("id").to_pylist())


@BOTH
def test_a_statement_with_a_typo_changes_nothing_and_the_transaction_goes_on(
    spark: SparkSession, lake: lw.Lake, table_format: str
) -> None:
    table = make(lake, table_format)
    typos: list[tuple[str, type[Exception]]] = [
        ("SELECT nope FROM t", AnalysisException),
        ("INSERT INTO t SELECT idd, v FROM t", AnalysisException),
        ("INSERT INTO t SELECT id FROM t", SchemaMismatch),
        ("DELETE FROM t WHERE nope = 1", AnalysisException),
        ("UPDATE t SET nope = 1", AnalysisException),
        ("MERGE INTO t USING t AS s ON t.id = s.nope WHEN MATCHED THEN DELETE", AnalysisException),
        ("SELECT count(*) FROM t GROUP BY", ParseException),
        ("SELECT nosuchfunction(id) FROM t", AnalysisException),
        ("SELECT id ~~~ 1 FROM t", Exception),
        ("CREATE TABLE fresh AS SELECT nope FROM t", AnalysisException),
        ("CREATE TABLE fresh (a int, b)", InvalidInput),
        ("CREATE TABLE fresh (a int) PARTITIONED BY (nope)", LakewardError),
    ]
    with lake.transaction(spark=spark) as tx:
        tx.sql("INSERT INTO t VALUES (10, 'ten')")
        for text, error in typos:
            with pytest.raises(error):
                tx.sql(text)
        with pytest.raises((AnalysisException, SchemaMismatch)):
            tx.append("t", spark.sql("SELECT array(1) AS id, 'x' AS v"))
        tx.sql("INSERT INTO t VALUES (11, 'eleven')")
    assert ids(table) == [0, 1, 2, 10, 11]
    assert table.version == 2
    assert [t.name for t in lake.tables()] == ["t"]


def test_a_statement_that_did_not_run_is_no_reason_for_a_conflict(
    spark: SparkSession, lake: lw.Lake
) -> None:
    table = make(lake)
    with lake.transaction(spark=spark) as tx:
        with pytest.raises(AnalysisException):
            tx.sql("DELETE FROM t WHERE nope = 1")
        with lake.transaction() as other:
            other.delete("t", where="id = 0")
        tx.sql("INSERT INTO t VALUES (10, 'ten')")
    assert ids(table) == [1, 2, 10]


@BOTH
def test_a_statement_that_fails_while_it_runs_ends_the_transaction(
    spark: SparkSession, lake: lw.Lake, table_format: str
) -> None:
    table = make(lake, table_format)
    tx = lake.transaction(spark=spark)
    with pytest.raises(Exception, match=r"raised|stop"):
        tx.sql("INSERT INTO t SELECT id + 5, raise_error('stop') FROM t")
    with pytest.raises(LakewardError):
        tx.sql("INSERT INTO t VALUES (10, 'ten')")
    assert ids(table) == [0, 1, 2]


def test_an_overwrite_whose_rows_do_not_fit_ends_the_transaction(
    spark: SparkSession, lake: lw.Lake
) -> None:
    table = make(lake)
    tx = lake.transaction(spark=spark)
    with pytest.raises((AnalysisException, SchemaMismatch)):
        tx.overwrite("t", spark.sql("SELECT array(1) AS id, 'x' AS v"))
    with pytest.raises(LakewardError):
        tx.commit()
    assert ids(table) == [0, 1, 2]


def test_views_that_are_made_or_replaced_later_are_known(
    spark: SparkSession, lake: lw.Lake
) -> None:
    table = make(lake)
    own = spark.newSession()
    own.range(50, 51).createOrReplaceTempView("older")
    with lake.transaction(spark=own) as tx:
        own.range(100, 102).createOrReplaceTempView("fresh")
        tx.sql("INSERT INTO t SELECT id, 'fresh' FROM fresh")
        own.range(200, 201).createOrReplaceTempView("fresh")
        tx.sql("INSERT INTO t SELECT id, 'again' FROM Fresh")
        tx.sql("INSERT INTO t SELECT id, 'older' FROM older")
        own.range(60, 61).createOrReplaceTempView("older")
        tx.sql("INSERT INTO t SELECT id, 'older' FROM older")
        tx.sql("CREATE TEMPORARY VIEW mine AS SELECT id + 300 AS id FROM t WHERE id = 0")
        own.range(999, 1000).createOrReplaceTempView("mine")
        tx.sql("INSERT INTO t SELECT id, 'mine' FROM mine")
        tx.spark.range(400, 401).createOrReplaceTempView("older")
        tx.sql("INSERT INTO t SELECT id, 'of tx.spark' FROM older")
    assert ids(table) == [0, 1, 2, 50, 60, 100, 101, 200, 300, 400]
    assert not spark.catalog.tableExists("fresh")


def test_the_usual_function_for_each_batch_names_its_rows_by_a_view(
    spark: SparkSession, lake: lw.Lake, tmp_path: Path
) -> None:
    table = make(lake)
    source = tmp_path / "source"
    spark.range(1, 5).write.parquet(str(source))

    def upsert(tx: Transaction, batch: Any) -> None:
        assert tx.read("t").count() == 3
        batch.createOrReplaceTempView("updates")
        tx.sql(
            "MERGE INTO t USING updates AS u ON t.id = u.id"
            " WHEN MATCHED THEN UPDATE SET v = 'u' WHEN NOT MATCHED THEN INSERT (id) VALUES (u.id)"
        )

    query = (
        spark.readStream.schema("id long")
        .parquet(str(source))
        .writeStream.foreachBatch(sink(lake, upsert, query="upserts"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert query.exception() is None
    assert ids(table) == [0, 1, 2, 3, 4]


@BOTH
def test_parameters_and_frames_go_into_statements_as_into_spark_sql(
    spark: SparkSession, lake: lw.Lake, table_format: str
) -> None:
    table = make(lake, table_format)
    frame = spark.range(10, 13).selectExpr("id", "concat('f', id) AS v")
    quote = "it's -- a; 'text'"
    with lake.transaction(spark=spark) as tx:
        tx.sql(
            "INSERT INTO t SELECT * FROM {rows} WHERE {rows[id]} > {least}", rows=frame, least=10
        )
        tx.sql("UPDATE t SET v = :v WHERE id = :id", args={"v": quote, "id": 1})
        tx.sql("DELETE FROM t WHERE id = ? OR v = ?", args=[2, "nothing"])
        tx.sql("CREATE TABLE u AS SELECT id FROM t WHERE id >= :low", args={"low": 11})
        found = tx.sql("SELECT v FROM t WHERE v = {text}", text=quote).collect()
        assert [r.v for r in found] == [quote]
        with pytest.raises(InvalidInput, match="rows"):
            tx.sql("SELECT * FROM {rows}", other=1)
        with pytest.raises((AnalysisException, ParseException)):
            tx.sql("SELECT * FROM t WHERE id = :missing", args={"id": 1})
    assert ids(table) == [0, 1, 11, 12]
    assert ids(lake.table("u")) == [11, 12]


def test_a_global_temporary_view_is_refused(spark: SparkSession, lake: lw.Lake) -> None:
    make(lake)
    with lake.transaction(spark=spark) as tx:
        for text in (
            "CREATE GLOBAL TEMPORARY VIEW g AS SELECT * FROM t",
            "CREATE OR REPLACE GLOBAL TEMP VIEW g AS SELECT * FROM t",
        ):
            with pytest.raises(UnsupportedFeature) as caught:
                tx.sql(text)
            assert "GLOBAL" in (caught.value.hint or "")
    assert not spark.catalog.tableExists("global_temp.g")


def test_columns_that_cannot_be_understood_are_refused_with_a_reason(
    spark: SparkSession, lake: lw.Lake
) -> None:
    with lake.transaction(spark=spark) as tx:
        with pytest.raises(InvalidInput, match=r"understood: \[PARSE_SYNTAX_ERROR\] Syntax error"):
            tx.sql("CREATE TABLE u (a int, b GENERATED ALWAYS AS (a + 1))")
        with pytest.raises(UnsupportedFeature, match="Column a is VARCHAR"):
            tx.sql("CREATE TABLE u (a VARCHAR(10))")


def test_pandas_functions_run_in_the_python_of_the_program(
    spark: SparkSession, lake: lw.Lake
) -> None:
    def upper(texts: pd.Series) -> pd.Series:
        return texts.str.upper()

    shout: Any = pandas_udf(upper, "string")  # type: ignore[call-overload]
    table = make(lake)
    spark.udf.register("shout", shout)
    with lake.transaction(spark=spark) as tx:
        tx.append("t", spark.sql("SELECT 7L AS id, 'seven' AS v").withColumn("v", shout("v")))
        tx.sql("INSERT INTO t SELECT id + 10, shout(v) FROM t WHERE id = 1")
    found = {r["id"]: r["v"] for r in table.to_arrow().to_pylist()}
    assert (found[7], found[11]) == ("SEVEN", "V1")


def test_paths_into_tables_of_the_lake_are_refused_in_any_spelling(
    spark: SparkSession, lake: lw.Lake, tmp_path: Path
) -> None:
    place = Path(make(lake).location)
    (tmp_path / "link").symlink_to(place)
    spark.range(1).write.parquet(str(tmp_path / "free"))
    with lake.transaction(spark=spark) as tx:
        for path in (
            f"{place.parent}//{place.name}",
            f"{place}/../{place.name}",
            f"file:{place}/../{place.name}",
            f"file://{place}",
            f"{tmp_path}/link",
            f"{place.parent}/*",
            f"{place}@v1",
        ):
            for source in ("delta", "parquet", "spark_catalog.delta"):
                with pytest.raises(UnsupportedFeature, match="past the transaction"):
                    tx.sql(f"SELECT * FROM {source}.`{path}`")
                with pytest.raises(UnsupportedFeature):
                    tx.sql(f"INSERT INTO {source}.`{path}` VALUES (1, 'x')")
        assert tx.sql(f"SELECT * FROM parquet.`{tmp_path}//free`").count() == 1


@BOTH
def test_types_that_a_table_would_not_keep_are_refused_with_the_column(
    spark: SparkSession, lake: lw.Lake, table_format: str
) -> None:
    table = make(lake, table_format)
    collated = "'x' COLLATE UNICODE_CI"
    with lake.transaction(spark=spark) as tx:
        for columns, named in (
            ("a INT, v VARIANT", "v"),
            ("v STRING COLLATE UNICODE_CI", "v"),
            ("s STRUCT<a: INT, v: ARRAY<VARIANT>>", "s.v.element"),
            ("m MAP<STRING COLLATE UTF8_LCASE, INT>", "m.key"),
        ):
            with pytest.raises(UnsupportedFeature, match=f"Column {named} is "):
                tx.sql(f"CREATE TABLE u ({columns}) USING {table_format}")
        for terms, named in (
            ("parse_json('1') AS v", "v"),
            (f"{collated} AS v", "v"),
            (f"named_struct('a', array({collated})) AS s", "s.a.element"),
        ):
            with pytest.raises(UnsupportedFeature, match=f"Column {named} is "):
                tx.sql(f"CREATE TABLE u USING {table_format} AS SELECT 1 AS a, {terms}")
        with pytest.raises(LakewardError):
            tx.sql("CREATE TABLE u (v STRING) DEFAULT COLLATION UNICODE_CI")
        for clause in (
            "ADD COLUMN w VARIANT",
            "ADD COLUMN w STRING COLLATE UNICODE_CI",
            "ADD COLUMNS (w STRUCT<x: VARIANT>)",
            "ALTER COLUMN v TYPE STRING COLLATE UNICODE_CI",
        ):
            with pytest.raises((InvalidInput, UnsupportedFeature)):
                tx.sql(f"ALTER TABLE t {clause}")
        for columns in ("v VARIANT", "v STRING COLLATE UNICODE_CI"):
            with pytest.raises((InvalidInput, UnsupportedFeature)):
                tx.sql(f"CREATE TABLE u ({columns}, n INT DEFAULT 1) USING {table_format}")
        tx.sql("INSERT INTO t VALUES (10, 'ten')")
    assert ids(table) == [0, 1, 2, 10]
    for term in ("parse_json('1')", collated):
        with pytest.raises(SchemaMismatch, match="Column v of the data for t is "):  # noqa: SIM117
            with lake.transaction(spark=spark) as tx:
                tx.append("t", spark.sql(f"SELECT 11L AS id, {term} AS v"))
    assert table.version == 2
