"""Iceberg tables of version 3 in transactions on Spark: rows keep their ids."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakeward as lw
from lakeward.errors import UnsupportedFeature
from tests.behaviour.lakes import append, unchanged
from tests.support.row_ids import check_row_ids, metadata_of


@pytest.fixture
def lake(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A lake of its own."""
    with lw.open(tmp_path_factory.mktemp("rows")) as lake:
        yield lake


def test_rows_that_spark_moves_keep_their_ids(spark: SparkSession, lake: lw.Lake) -> None:
    table = lake.create(
        "t", {"id": "int64", "note": "string"}, format="iceberg", properties={"format-version": "3"}
    )
    append(lake, "t", [{"id": n, "note": "old"} for n in range(10)])
    append(lake, "t", [{"id": n, "note": "old"} for n in range(10, 20)])
    before = _ids(spark, table)
    known = check_row_ids(metadata_of(str(table.metadata_location)), {})
    with lake.transaction(spark=spark) as tx:
        tx.sql("UPDATE t SET note = 'new' WHERE id = 3")
        tx.sql("DELETE FROM t WHERE id = 12")
        tx.sql("INSERT INTO t VALUES (100, 'came')")
    after = _ids(spark, table)
    check_row_ids(metadata_of(str(table.metadata_location)), known)

    assert sorted(after) == [*(n for n in range(20) if n != 12), 100]
    assert {n: i for n, i in after.items() if n < 100} == {
        n: i for n, i in before.items() if n != 12
    }
    assert len(set(after.values())) == len(after)
    notes = {r["id"]: r["note"] for r in table.to_arrow().to_pylist()}
    assert notes == {n: "new" if n == 3 else "came" if n == 100 else "old" for n in after}
    append(lake, "t", [{"id": 101, "note": "last"}])
    assert _ids(spark, table).items() >= after.items()
    # The embedded engine moves them, too.
    with lake.transaction() as tx:
        tx.update("t", set={"note": "'moved'"}, where="id IN (3, 7, 100)")
    table.optimize()
    assert _ids(spark, table).items() >= after.items()


def test_rows_that_would_share_ids_are_refused(spark: SparkSession, lake: lw.Lake) -> None:
    properties = {"format-version": "3"}
    table = lake.create("t", {"id": "int64"}, format="iceberg", properties=properties)
    append(lake, "t", [{"id": n} for n in range(5)])
    refused = pytest.raises(UnsupportedFeature, match="share ids")
    with unchanged(lake), refused, lake.transaction(spark=spark) as tx:
        tx.sql("INSERT INTO t VALUES (10), (11), (12)")
        tx.sql("DELETE FROM t WHERE id IN (1, 11)")
    with lake.transaction(spark=spark) as tx:
        tx.sql("INSERT INTO t VALUES (10), (11), (12)")
        tx.sql("INSERT INTO t VALUES (13)")
    check_row_ids(metadata_of(str(table.metadata_location)), {})
    assert sorted(_ids(spark, table)) == [*range(5), 10, 11, 12, 13]


def _ids(spark: SparkSession, table: lw.Table) -> dict[int, int]:
    frame = spark.read.format("iceberg").load(table.metadata_location)
    return {r.id: r._row_id for r in frame.select("id", "_row_id").collect()}
