"""Iceberg tables that Spark renamed columns of, and whose old schemas it expired."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakeward as lw
from tests.behaviour.lakes import append
from tests.support.delete_files import delete_equal
from tests.support.foreign_files import numbered
from tests.support.iceberg import stranger_table


@pytest.fixture
def lake(tmp_path: Path) -> Generator[lw.Lake]:
    with lw.open(tmp_path / "lake") as opened:
        yield opened


def _catalog(spark: SparkSession, warehouse: Path) -> str:
    name = f"hadoop_{abs(hash(str(warehouse)))}"
    spark.conf.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set(f"spark.sql.catalog.{name}.type", "hadoop")
    spark.conf.set(f"spark.sql.catalog.{name}.warehouse", str(warehouse))
    return name


def _theirs(spark: SparkSession, location: str) -> list[dict[str, Any]]:
    """The rows that Spark reads by a metadata document."""
    found = spark.read.format("iceberg").load(location)
    return [r.asDict(recursive=True) for r in found.orderBy("id").collect()]


def test_columns_swapped_before_their_schemas_expired_keep_their_values(
    spark: SparkSession, lake: lw.Lake, tmp_path: Path
) -> None:
    name = _catalog(spark, tmp_path / "theirs")
    full = f"{name}.shop.t"
    spark.sql(f"CREATE TABLE {full} (id INT, a STRING, b STRING, s STRUCT<x: INT>) USING iceberg")
    spark.sql(f"INSERT INTO {full} VALUES (1, 'a1', 'b1', struct(1)), (2, 'a2', 'b2', null)")
    for change in (
        *("RENAME COLUMN a TO c", "RENAME COLUMN b TO a", "RENAME COLUMN c TO b"),
        *("RENAME COLUMN s.x TO y", "ALTER COLUMN id TYPE BIGINT"),
    ):
        spark.sql(f"ALTER TABLE {full} {change}")
    spark.sql(f"INSERT INTO {full} VALUES (3, 'a3', 'b3', struct(3))")
    spark.sql(
        f"CALL {name}.system.expire_snapshots(table => 'shop.t', retain_last => 1, "
        "older_than => TIMESTAMP '2100-01-01', clean_expired_metadata => true)"
    )
    expected = [r.asDict(recursive=True) for r in spark.table(full).orderBy("id").collect()]
    assert expected[0] == {"id": 1, "b": "a1", "a": "b1", "s": {"y": 1}}

    table = lake.adopt("shop.t", str(tmp_path / "theirs" / "shop" / "t"))

    assert table.to_arrow().sort_by("id").to_pylist() == expected
    assert table.to_arrow(columns=["id"], where="b = 'a2'").to_pylist() == [{"id": 2}]
    # Written again by us, and then on a branch by Spark.
    with lake.transaction() as tx:
        tx.delete("shop.t", where="id = 2")
    assert _theirs(spark, str(table.metadata_location)) == [expected[0], expected[2]]
    with lake.transaction(spark=spark) as spark_tx:
        spark_tx.sql("UPDATE shop.t SET b = concat(b, '!') WHERE id = 1")
    changed = [{**expected[0], "b": "a1!"}, expected[2]]
    assert table.to_arrow().sort_by("id").to_pylist() == changed
    assert _theirs(spark, str(table.metadata_location)) == changed


def test_spark_and_we_leave_out_the_same_rows_by_equality_deletes(
    spark: SparkSession, lake: lw.Lake
) -> None:
    table = lake.create("t", {"id": "int64", "name": "string"}, format="iceberg")
    with lake.transaction() as tx:
        tx.append("t", [{"id": n, "name": None if n % 3 == 0 else f"n{n % 3}"} for n in range(9)])
    theirs = stranger_table(lake, "t")
    fields = [numbered("id", pa.int64(), 1), numbered("name", pa.string(), 2)]
    keys = pa.table({"id": [1, 2, 3, 4], "name": ["n1", "n1", None, None]}, pa.schema(fields))
    delete_equal(theirs, keys, [1, 2])
    delete_equal(theirs, pa.table({"id": [8]}, pa.schema(fields[:1])), [1])

    def agree() -> list[int]:
        ours = table.to_arrow().sort_by("id").to_pylist()
        assert _theirs(spark, str(table.metadata_location)) == ours
        return [r["id"] for r in ours]

    assert agree() == [0, 2, 4, 5, 6, 7]
    with lake.transaction() as tx:
        tx.delete("t", where="id = 5 OR name IS NULL AND id < 6")
        tx.append("t", [{"id": 8, "name": "back"}])
    assert agree() == [2, 4, 6, 7, 8]


def test_deletion_vectors_of_version_3_are_read(
    spark: SparkSession, lake: lw.Lake, tmp_path: Path
) -> None:
    name = _catalog(spark, tmp_path / "theirs")
    full = f"{name}.shop.t"
    spark.sql(
        f"CREATE TABLE {full} (id BIGINT, part INT) USING iceberg PARTITIONED BY (part) "
        "TBLPROPERTIES ('format-version'='3', 'write.delete.mode'='merge-on-read')"
    )
    spark.sql(f"INSERT INTO {full} SELECT id, id % 2 FROM range(0, 1000, 1, 1)")
    spark.sql(f"DELETE FROM {full} WHERE id % 7 = 3")
    spark.sql(f"ALTER TABLE {full} RENAME COLUMN id TO number")
    spark.sql(f"DELETE FROM {full} WHERE number = 992")
    expected = [r.number for r in spark.table(full).orderBy("number").collect()]

    table = lake.adopt("shop.t", str(tmp_path / "theirs" / "shop" / "t"))

    assert len(list((tmp_path / "theirs").rglob("*.puffin"))) > 1
    assert table.to_arrow().sort_by("number")["number"].to_pylist() == expected
    found = table.to_arrow(columns=["number"], where="number > 985 AND part = 0")["number"]
    assert sorted(found.to_pylist()) == [n for n in expected if n > 985 and n % 2 == 0]

    before = {
        r.number: r._row_id for r in spark.sql(f"SELECT number, _row_id FROM {full}").collect()
    }
    append(lake, "shop.t", [{"number": 2000, "part": 0}, {"number": 2001, "part": 5}])
    frame = spark.read.format("iceberg").load(table.metadata_location)
    after = {r.number: r._row_id for r in frame.select("number", "_row_id").collect()}
    assert sorted(after) == [*expected, 2000, 2001]
    assert {n: i for n, i in after.items() if n < 2000} == before
    assert len(set(after.values())) == len(after)
