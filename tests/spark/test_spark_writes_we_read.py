"""Delta tables that Spark wrote with features of its own, read and filtered by Lakeward."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lakeward as lw

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def lake(tmp_path: Path) -> Generator[lw.Lake]:
    """An empty lake on SQLite."""
    with lw.open(tmp_path / "lake") as found:
        yield found


def _ids(table: lw.Table, where: str) -> list[int]:
    return sorted(table.to_arrow(columns=["id"], where=where)["id"].to_pylist())


def _spark_ids(spark: SparkSession, place: Path, where: str) -> list[int]:
    rows = spark.sql(f"SELECT id FROM delta.`{place}` WHERE {where}").collect()
    return sorted(row.id for row in rows)


def test_spark_s_bounds_of_floats_are_trusted_because_they_order_nan(
    spark: SparkSession, lake: lw.Lake, tmp_path: Path
) -> None:
    place = tmp_path / "t"
    spark.sql(f"CREATE TABLE delta.`{place}` (id INT, x DOUBLE) USING delta")
    spark.sql(f"INSERT INTO delta.`{place}` VALUES (1, 1.0), (2, double('NaN'))")
    spark.sql(f"INSERT INTO delta.`{place}` VALUES (3, 1.0), (4, 2.0)")
    table = lake.adopt("t", place, guard=False)

    # The file without NaN is not read; a Spark that left NaN out of bounds would lose row 2.
    assert len(table.files(where="x > 5")) == 1
    for condition in ("x > 5", "isnan(x)", "x <> 1", "x >= 2", "x < 2", "NOT x <= 1"):
        assert _ids(table, condition) == _spark_ids(spark, place, condition)


def test_columns_that_spark_renamed_and_widened_are_read(
    spark: SparkSession, lake: lw.Lake, tmp_path: Path
) -> None:
    place = tmp_path / "t"
    on = "'delta.enableTypeWidening' = 'true', 'delta.columnMapping.mode' = 'name'"
    spark.sql(
        f"CREATE TABLE delta.`{place}` (id INT, x DOUBLE, s STRUCT<a: INT, b: STRING>, "
        f"l ARRAY<INT>, m MAP<STRING, INT>) USING delta TBLPROPERTIES ({on})"
    )
    spark.sql(
        f"INSERT INTO delta.`{place}` VALUES "
        "(1, 1.0, named_struct('a', 1, 'b', 'q'), array(1, 2), map('k', 1)), "
        "(2, double('NaN'), NULL, NULL, NULL)"
    )
    for change in (
        "ALTER COLUMN id TYPE BIGINT",
        "RENAME COLUMN x TO y",
        "RENAME COLUMN s.a TO c",
        "ALTER COLUMN s.c TYPE BIGINT",
        "ALTER COLUMN l.element TYPE BIGINT",
        "ALTER COLUMN m.value TYPE BIGINT",
    ):
        spark.sql(f"ALTER TABLE delta.`{place}` {change}")
    spark.sql(
        f"INSERT INTO delta.`{place}` VALUES "
        "(3000000000, 2.0, named_struct('c', 5000000000, 'b', 'r'), array(5000000000), "
        "map('z', 5000000000))"
    )
    table = lake.adopt("t", place, guard=False)

    rows = spark.sql(f"SELECT * FROM delta.`{place}` ORDER BY id").collect()
    theirs = [row.asDict(recursive=True) for row in rows]
    ours = sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"])
    for row in ours:
        row["m"] = None if row["m"] is None else dict(row["m"])
    assert repr(ours) == repr(theirs)
    for condition in (
        "id = 1",
        "id > 2",
        "y > 1.5",
        "isnan(y)",
        "s.c = 1",
        "s.c > 1",
        "s.b IN ('q', NULL)",
        "id NOT IN (1, NULL)",
    ):
        assert _ids(table, condition) == _spark_ids(spark, place, condition)


def test_variants_and_voids_of_spark_are_shown(
    spark: SparkSession, lake: lw.Lake, tmp_path: Path
) -> None:
    place = tmp_path / "t"
    spark.sql(f"CREATE TABLE delta.`{place}` (id INT, v VARIANT, n VOID) USING delta")
    spark.sql(f"INSERT INTO delta.`{place}` (id, v) VALUES (1, parse_json('5')), (2, NULL)")
    table = lake.adopt("t", place)

    assert sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"]) == [
        {"id": 1, "v": {"metadata": b"\x01\x00\x00", "value": b"\x0c\x05"}, "n": None},
        {"id": 2, "v": None, "n": None},
    ]
    # The guard's commit kept the types, so that Spark goes on reading the table.
    shown = spark.sql(f"SELECT to_json(v) AS v FROM delta.`{place}` WHERE id = 1").collect()
    assert shown[0].v == "5"
