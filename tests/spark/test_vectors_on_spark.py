"""Deletion vectors of ours are read by Spark, its by us, and each goes on where the other was."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import lakeward as lw

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_each_reads_and_goes_on_with_the_vectors_of_the_other(
    spark: SparkSession, tmp_path: Path
) -> None:
    with lw.open(tmp_path) as lake:
        _go_on(spark, lake)


def _go_on(spark: SparkSession, lake: lw.Lake) -> None:
    table = lake.create(
        "t",
        {"id": "int64", "name": "string"},
        policy={"merge_on_read": True, "change_data_feed": True},
    )
    with lake.transaction() as tx:
        tx.append("t", [{"id": n, "name": f"n{n}"} for n in range(1000)])
    (path,) = {f.path for f in table.files()}

    def both(version: int) -> list[int]:
        """The ids as we read them, once Spark has agreed."""
        ours = sorted(table.at(version=version).to_arrow()["id"].to_pylist())
        frame = spark.read.format("delta").option("versionAsOf", version).load(table.location)
        assert sorted(r[0] for r in frame.select("id").collect()) == ours
        assert frame.count() == len(ours)
        return ours

    with lake.transaction() as tx:
        tx.delete("t", where="id IN (1, 5)")
    with lake.transaction(spark=spark) as tx:
        tx.sql("DELETE FROM t WHERE id IN (10, 11, 12)")
    with lake.transaction() as tx:
        tx.delete("t", where="id = 999")

    assert {f.path for f in table.files()} == {path}, "nobody wrote the file again"
    gone = {1, 5, 10, 11, 12, 999}
    assert both(2) == [n for n in range(1000) if n not in (1, 5)]
    assert both(3) == [n for n in range(1000) if n not in gone - {999}]
    assert both(4) == [n for n in range(1000) if n not in gone]
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 2)
    told = feed.load(table.location).select("_commit_version", "_change_type", "id").collect()
    assert sorted(map(tuple, told)) == [
        *((2, "delete", n) for n in (1, 5)),
        *((3, "delete", n) for n in (10, 11, 12)),
        (4, "delete", 999),
    ]
