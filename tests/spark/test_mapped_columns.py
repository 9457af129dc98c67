"""Tables with mapped columns that the embedded engine writes: Spark reads our rows and changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakeward as lw
from tests.behaviour.lakes import append
from tests.support.mapped_table import FIRST_ROWS, SCHEMA, mapped_table

_SETTINGS = {
    "delta.enableChangeDataFeed": "true",
    "delta.enableDeletionVectors": "true",
    "lakeward.mergeOnRead.fraction": "0.5",
}
_NEW: list[dict[str, Any]] = [
    {"id": 11, "note": "n", "p": "u", "part": {"x": 5}, "list": [{"k": "9"}], "map": [("q", 2)]},
    {"id": 12, "note": None, "p": "v", "part": None, "list": [], "map": None},
]


@pytest.mark.parametrize("mode", ["name", "id"])
@pytest.mark.always("id]")
def test_spark_reads_rows_changes_and_old_versions(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    # In the mode `id` the names in the first file say nothing: Spark goes by ids, too.
    where = mapped_table(tmp_path / "t", mode, _SETTINGS, odd_names=mode == "id")
    with lw.open(tmp_path / "lake") as lake:
        table = lake.adopt("t", where)
        append(lake, "t", pa.Table.from_pylist(_NEW, SCHEMA))
        with lake.transaction() as tx:
            tx.update("t", set={"note": "'new'"}, where="part.x = 1")
        with lake.transaction() as tx:
            tx.delete("t", where="id IN (2, 12)")
        with lake.transaction() as tx:
            tx.alter("t").rename_column("note", "remark").drop_column("map").add_column("e", "int")
            tx.append("t", [{"id": 13, "remark": "last", "p": "u", "part": None, "list": []}])
        found = _rows(spark.read.format("delta").load(str(where)))
        assert found == _rows_of(table.to_arrow())
        assert {r[0]: r[1] for r in found} == {1: "new", 3: "c", 11: "n", 13: "last"}
        old = spark.read.format("delta").option("versionAsOf", table.version - 1).load(str(where))
        assert _rows(old) == _rows_of(table.at(version=table.version - 1).to_arrow())
        first = spark.read.format("delta").option("versionAsOf", 0).load(str(where))
        assert [r.id for r in first.orderBy("id").collect()] == [r["id"] for r in FIRST_ROWS]
        feed = spark.read.format("delta").option("readChangeFeed", "true")
        span = feed.option("startingVersion", 2).option("endingVersion", table.version - 1)
        changes = span.load(str(where)).select("_change_type", "id", "note", "p").collect()
    assert sorted(map(tuple, changes), key=str) == sorted(
        [
            ("insert", 11, "n", "u"),
            ("insert", 12, None, "v"),
            ("update_preimage", 1, "a", "u"),
            ("update_postimage", 1, "new", "u"),
            ("delete", 2, None, "u"),
            ("delete", 12, None, "v"),
        ],
        key=str,
    )


def _rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(_form(r.asDict(recursive=True)) for r in frame.collect())


def _rows_of(rows: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(map(_form, rows.to_pylist()))


def _form(row: dict[str, Any]) -> tuple[Any, ...]:
    """A row in an order and a shape that do not depend on who read it."""
    named = row.get("remark", row.get("note"))
    pairs = row.get("map")
    flat = None if pairs is None else sorted(dict(pairs).items())
    rest = [row["p"], row["part"], row["list"], flat, row.get("e")]
    return (row["id"], named, *(repr(value) for value in rest))
