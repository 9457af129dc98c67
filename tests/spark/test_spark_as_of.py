"""Older versions in SQL of a transaction on Spark, beside tables as they are."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lakeward as lw
from lakeward.errors import NotFound, UnsupportedFeature, VersionNotFound


@pytest.fixture
def lake(tmp_path: Path) -> Generator[lw.Lake]:
    with lw.open(tmp_path / "lake") as opened:
        yield opened


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_versions_times_and_tags_are_read_beside_the_newest(
    spark: SparkSession, lake: lw.Lake, table_format: str
) -> None:
    properties = {}
    if table_format == "delta":
        properties = {"delta.enableDeletionVectors": "true", "lakeward.mergeOnRead.fraction": "1"}
    table = lake.create("sales.orders", {"id": "int64"}, format=table_format, properties=properties)
    lake.create("copies", {"id": "int64"}, format="iceberg")
    table.append([{"id": n} for n in (1, 2, 3)])
    lake.tag("begun")
    table.delete(where="id = 2")
    table.alter().add_column("note", "string").commit()
    table.append([{"id": 4, "note": "new"}])
    moment = table.at(version=2).timestamp.isoformat()

    with lake.transaction(spark=spark) as tx:

        def ids(text: str) -> list[int]:
            return sorted(row[0] for row in tx.sql(text).collect())

        assert ids("SELECT id FROM sales.orders VERSION AS OF 1") == [1, 2, 3]
        assert ids("SELECT id FROM sales.orders FOR VERSION AS OF 2") == [1, 3]
        assert ids("SELECT o.id FROM sales.orders VERSION AS OF 'begun' o WHERE o.id > 1") == [2, 3]
        assert ids(f"SELECT id FROM sales.orders TIMESTAMP AS OF '{moment}'") == [1, 3]
        assert ids("SELECT orders.id FROM sales.orders VERSION AS OF 1 WHERE orders.id < 2") == [1]
        assert ids("SELECT id FROM sales.orders VERSION AS OF 0") == []
        for version in (0, 1):
            assert tx.sql(f"SELECT * FROM sales.orders VERSION AS OF {version}").columns == ["id"]
        tx.sql("DELETE FROM sales.orders WHERE id = 1")
        gone = (
            "SELECT old.id FROM sales.orders VERSION AS OF 1 AS old"
            " LEFT ANTI JOIN sales.orders AS new ON old.id = new.id"
        )
        assert ids(gone) == [1, 2]
        tx.sql("INSERT INTO copies SELECT id FROM sales.orders VERSION AS OF 2")
    assert sorted(lake.table("copies").to_arrow()["id"].to_pylist()) == [1, 3]
    assert sorted(table.to_arrow()["id"].to_pylist()) == [3, 4]
    for text, error in (
        ("SELECT * FROM sales.orders VERSION AS OF 77", VersionNotFound),
        ("SELECT * FROM sales.orders VERSION AS OF 'nothing'", NotFound),
        ("SELECT * FROM sales.orders TIMESTAMP AS OF '2001-01-01'", VersionNotFound),
        ("SELECT * FROM sales.orders TIMESTAMP AS OF current_timestamp()", UnsupportedFeature),
    ):
        asked = lake.transaction(spark=spark)
        with pytest.raises(error):
            asked.sql(text)
        asked.rollback()
