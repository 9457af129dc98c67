"""Writers of Spark's own, which take a table's name, write into the transaction."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

import lakeward as lw
from lakeward.errors import InvalidInput, UnsupportedFeature

BOTH = pytest.mark.parametrize("table_format", ["delta", "iceberg"])
NAME = "sales.orders"


@pytest.fixture
def lake(tmp_path: Path) -> Generator[lw.Lake]:
    with lw.open(tmp_path / "lake") as opened:
        yield opened


def make(lake: lw.Lake, table_format: str) -> lw.Table:
    table = lake.create(NAME, "id int64 not null, name string", format=table_format)
    with lake.transaction() as tx:
        tx.append(NAME, [{"id": 0, "name": "first"}])
    return table


def rows(spark: SparkSession, number: int, name: str) -> DataFrame:
    return spark.createDataFrame([(number, name)], "id long, name string")


def names(table: lw.Table) -> dict[int, str]:
    return {r["id"]: r["name"] for r in table.to_arrow().to_pylist()}


@BOTH
def test_frames_of_either_session_are_added_by_name(
    spark: SparkSession, lake: lw.Lake, table_format: str
) -> None:
    table = make(lake, table_format)

    with lake.transaction(spark=spark) as tx:
        name = tx.name(NAME)
        rows(tx.spark, 1, "insertInto").write.insertInto(name)
        rows(spark, 2, "inserted").write.insertInto(name)
        rows(tx.spark, 3, "writeTo").writeTo(name).append()
        rows(spark, 4, "written").writeTo(name).append()
        saved = rows(spark, 5, "saved").write.format(table_format).mode("append")
        saved.saveAsTable(name)
        source = rows(spark, 0, "merged").alias("s")
        key = fn.expr(f"s.id = {name}.id")
        source.mergeInto(name, key).whenMatched().updateAll().merge()
        assert names(table) == {0: "first"}

    assert list(map(names(table).get, range(6))) == [
        *("merged", "insertInto", "inserted", "writeTo", "written", "saved")
    ]
    assert table.version == 2
    assert not [key for key in spark.conf.getAll if "txn_" in key]


@BOTH
def test_a_table_gets_the_columns_of_a_frame_that_is_written_by_name(
    spark: SparkSession, lake: lw.Lake, table_format: str
) -> None:
    table = make(lake, table_format)
    more = spark.createDataFrame([(1, "one", 2.5)], "id long, name string, price double")

    with lake.transaction(spark=spark) as tx:
        more.writeTo(tx.name(NAME, like=more, schema_mode="merge")).append()
        rows(spark, 2, "two").withColumn("price", fn.lit(None).cast("double")).writeTo(
            tx.name(NAME)
        ).append()

    assert [tuple(r.values()) for r in table.to_arrow().sort_by("id").to_pylist()] == [
        (0, "first", None),
        (1, "one", 2.5),
        (2, "two", None),
    ]
    assert table.version == 2
    tx = lake.transaction(spark=spark)
    with pytest.raises(InvalidInput, match="like"):
        tx.name(NAME, schema_mode="merge")
    tx.rollback()


@BOTH
def test_rows_are_replaced_by_name(spark: SparkSession, lake: lw.Lake, table_format: str) -> None:
    table = make(lake, table_format)

    with lake.transaction(spark=spark) as tx:
        name = tx.name(NAME)
        rows(spark, 1, "one").writeTo(name).append()
        rows(spark, 1, "again").writeTo(name).overwrite(fn.expr("id = 1"))
        assert {r.name for r in tx.read(NAME).collect()} == {"first", "again"}
        rows(spark, 2, "two").write.insertInto(name, overwrite=True)
        assert names(table) == {0: "first"}

    assert names(table) == {2: "two"}


@BOTH
def test_a_table_is_not_replaced_by_name(
    spark: SparkSession, lake: lw.Lake, table_format: str
) -> None:
    table = make(lake, table_format)

    tx = lake.transaction(spark=spark)
    name = tx.name(NAME)
    other = spark.range(3).withColumnRenamed("id", "number")
    other.writeTo(name).using(table_format).createOrReplace()
    with pytest.raises(UnsupportedFeature, match="changed the columns"):
        tx.commit()

    assert names(table) == {0: "first"}
    with pytest.raises(Exception, match=r"(?i)not.found|cannot|closed"):
        rows(spark, 1, "late").writeTo(name).append()
