"""What a Delta table has besides rows survives a transaction of many statements."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakeward as lw
from lakeward.errors import UnsupportedFeature
from tests.interop.maintained import is_readable, published_versions, steps
from tests.support.iceberg import stranger_table


@pytest.fixture
def lake(tmp_path: Path) -> Generator[lw.Lake]:
    with lw.open(tmp_path / "lake") as opened:
        yield opened


def rows_of(frame: Any) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(r) for r in frame.collect())


def test_deletion_vectors_and_the_change_feed_are_right_after_many_statements(
    spark: SparkSession, lake: lw.Lake
) -> None:
    properties = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
    table = lake.create("orders", {"id": "int64", "n": "int64"}, properties=properties)
    with lake.transaction(spark=spark) as tx:
        tx.append("orders", spark.range(20).selectExpr("id", "id * 2 AS n"))

    with lake.transaction(spark=spark) as tx:
        tx.sql("DELETE FROM orders WHERE id % 5 = 0")
        tx.sql("UPDATE orders SET n = -1 WHERE id IN (1, 2)")
        tx.sql("UPDATE orders SET n = 2 WHERE id = 1")
        tx.append("orders", spark.range(100, 103).selectExpr("id", "0L AS n"))
        tx.delete("orders", where="id = 101")

    assert any(f.file.deletion_vector for f in table.files())
    read = spark.read.format("delta")
    before, after = (
        read.option("versionAsOf", v).load(table.location).select("id", "n") for v in (1, 2)
    )
    feed = (
        spark.read.format("delta")
        .option("readChangeFeed", "true")
        .option("startingVersion", 2)
        .load(table.location)
        .where("_change_type != 'update_preimage'")
    )
    gone = rows_of(feed.where("_change_type = 'delete'").select("id", "n"))
    come = rows_of(feed.where("_change_type != 'delete'").select("id", "n"))
    assert gone == rows_of(before) - rows_of(after)
    assert come == rows_of(after) - rows_of(before)
    assert rows_of(after) == Counter((r["id"], r["n"]) for r in table.to_arrow().to_pylist())


def test_partitions_by_transforms_are_kept(spark: SparkSession, lake: lw.Lake) -> None:
    columns = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    for table_format in ("delta", "iceberg"):
        name = f"{table_format}_events"
        lake.create(name, columns, format=table_format, partition_by=["day(at)"])
        with lake.transaction(spark=spark) as tx:
            frame = spark.sql(
                "SELECT id, timestamp'2026-01-01 23:00:00' + make_dt_interval(0, id) AS at"
                " FROM range(4)"
            )
            tx.append(name, frame)
            tx.sql(f"DELETE FROM {name} WHERE id = 3")

        table = lake.table(name)
        assert sorted(table.to_arrow()["id"].to_pylist()) == [0, 1, 2]
        january = "at < '2026-01-02T00:00:00Z'"
        assert {f.path for f in table.files(where=january)} < {f.path for f in table.files()}
        assert table.to_arrow(where=january)["id"].to_pylist() == [0]


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_optimize_rewrites_files_and_changes_no_row(
    spark: SparkSession, lake: lw.Lake, table_format: str
) -> None:
    columns = {"id": "int64", "n": "int64"}
    # Rows only move, so a table that only grows may be optimized too.
    table = lake.create("s.t", columns, format=table_format, policy={"append_only": True})
    for n in range(3):
        with lake.transaction() as tx:
            tx.append("s.t", [{"id": n, "n": 2 - n}])

    with lake.transaction(spark=spark) as tx:
        tx.sql("OPTIMIZE s.t ZORDER BY (n)")
        with lake.transaction() as other:
            other.append("s.t", [{"id": 9, "n": 9}])

    assert len(table.files()) == 2
    assert sorted(table.to_arrow()["id"].to_pylist()) == [0, 1, 2, 9]
    newest = table.history(limit=1)[0]
    assert (newest.version, newest.operation) == (5, "OPTIMIZE")
    if table_format == "iceberg":
        seen = stranger_table(lake, "s.t")
        assert sorted(seen.scan().to_arrow()["id"].to_pylist()) == [0, 1, 2, 9]
        assert seen.current_snapshot().summary.operation.value == "replace"


def test_optimize_of_an_iceberg_table_chooses_files_and_orders_rows(
    spark: SparkSession, lake: lw.Lake
) -> None:
    columns = {"id": "int64", "day": "date", "zo rder": "string"}
    table = lake.create("t", columns, format="iceberg", partition_by=["day"])
    days = [dt.date(2026, 1, 1 + n % 2) for n in range(6)]
    for n, day in enumerate(days):
        with lake.transaction() as tx:
            tx.append("t", [{"id": n, "day": day, "zo rder": "zorder by x"[n:]}])

    with lake.transaction(spark=spark) as tx:
        tx.sql("OPTIMIZE t WHERE day >= '2026-01-02' AND `zo rder` <> 'zorder by' ;")
    assert sorted(f.rows or 0 for f in table.files()) == [1, 1, 1, 3]

    with lake.transaction(spark=spark) as tx:
        tx.sql("INSERT INTO t VALUES (7, date'2026-01-01', NULL)")
        tx.sql("OPTIMIZE t ZORDER BY id, `zo rder`")
    assert sorted(f.rows or 0 for f in table.files()) == [3, 4]
    assert table.history(limit=1)[0].operation == "TRANSACTION"
    assert sorted(table.to_arrow()["id"].to_pylist()) == [0, 1, 2, 3, 4, 5, 7]
    assert stranger_table(lake, "t").scan().count() == 7

    with lake.transaction(spark=spark) as tx:
        tx.sql("OPTIMIZE t")
    assert tx.commit().versions == {}


def test_an_optimize_that_iceberg_cannot_do_is_refused_and_the_transaction_goes_on(
    spark: SparkSession, lake: lw.Lake
) -> None:
    columns = {"id": "int64", "part": "string", "price": "decimal(9, 2)"}
    table = lake.create("t", columns, format="iceberg", partition_by=["part"])

    with lake.transaction(spark=spark) as tx:
        for statement, reason in {
            "OPTIMIZE t WHERE lower(part) = 'a'": "choose files by",
            "OPTIMIZE t WHERE id IN (SELECT 1)": "choose files by",
            "OPTIMIZE t WHERE nothing = 1": "nothing",
            "OPTIMIZE t WHERE id = price": "choose files by",
            "OPTIMIZE t ZORDER BY (nothing)": "no such column",
            "OPTIMIZE t ZORDER BY (part)": "same value",
            "OPTIMIZE t ZORDER BY (price)": "no Z-order",
        }.items():
            with pytest.raises(UnsupportedFeature, match=reason) as caught:
                tx.sql(statement)
            assert caught.value.hint
        tx.sql("OPTIMIZE t")
        tx.sql("INSERT INTO t VALUES (1, 'a', 2.5)")

    assert (table.version, table.to_arrow().num_rows) == (1, 1)


def test_a_table_that_only_grows_takes_no_other_statement(
    spark: SparkSession, lake: lw.Lake
) -> None:
    for table_format in ("delta", "iceberg"):
        name = f"{table_format}_log"
        lake.create(name, {"id": "int64"}, format=table_format, policy={"append_only": True})
        with lake.transaction(spark=spark) as tx:
            tx.append(name, spark.range(3))

        tx = lake.transaction(spark=spark)
        with pytest.raises(Exception, match=r"(?i)append.?only"):  # noqa: PT012  either of the two
            tx.sql(f"DELETE FROM {name} WHERE id = 1")
            tx.commit()

        assert lake.table(name).version == 1


@pytest.mark.full
@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_every_promised_version_reads_the_same_after_each_step_of_maintenance(
    spark: SparkSession, lake: lw.Lake, table_format: str
) -> None:
    read = 0
    for step, table in steps(lake, "t", table_format):
        lake.publish()
        if table_format == "delta":
            found = {v: {"versionAsOf": str(v)} for v in published_versions(table)}
            place = table.location
        else:
            known = {v.snapshot_id: v.version for v in table.versions()}
            listed = [s.snapshot_id for s in stranger_table(lake, "t").snapshots()]
            found = {known[n]: {"snapshot-id": str(n)} for n in listed if n in known}
            found = {v: at for v, at in found.items() if is_readable(table, v)}
            place = str(table.metadata_location)
        for version, at in found.items():
            frame = spark.read.format(table_format).options(**at).load(place)
            ours = table.at(version=version).to_arrow(columns=["id"])
            theirs = sorted(r[0] for r in frame.select("id").collect())
            assert theirs == sorted(ours["id"].to_pylist()), (step, version)
            read += 1
    assert read > 40
    before = sorted(table.to_arrow()["id"].to_pylist())
    table.append([{"id": 5000, "p": "a"}])
    table.append([{"id": 5001, "p": "a"}])

    assert table.optimize(spark=spark, zorder=["id"]).state == "done"

    assert sorted(table.to_arrow()["id"].to_pylist()) == [*before, 5000, 5001]
    assert table.history(limit=1)[0].operation == "OPTIMIZE"
