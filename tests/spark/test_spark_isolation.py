"""Nothing leaves a transaction on Spark before its commit, and nothing stays after a rollback."""

from __future__ import annotations

import gc
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakeward as lw
from lakeward.errors import TransactionClosed, UnsupportedFeature

ROWS = [{"id": n, "name": f"n{n}"} for n in range(4)]
FORMATS = {"orders": "delta", "totals": "iceberg"}


@pytest.fixture
def lake(tmp_path: Path) -> Generator[lw.Lake]:
    with lw.open(tmp_path / "lake") as opened:
        fill(opened)
        yield opened


def fill(lake: lw.Lake) -> None:
    for name, table_format in FORMATS.items():
        lake.create(name, {"id": "int64", "name": "string"}, format=table_format)
    with lake.transaction() as tx:
        for name in FORMATS:
            tx.append(name, ROWS)


def files(lake: lw.Lake) -> set[str]:
    """Every file of the lake's tables, but for what the store keeps."""
    root = Path(lake.warehouse)
    return {str(p.relative_to(root)) for n in FORMATS for p in (root / n).rglob("*") if p.is_file()}


def as_others_see(spark: SparkSession, lake: lw.Lake) -> list[int]:
    """How many rows Spark sees without the lake."""
    stranger = spark.newSession()
    orders, totals = lake.table("orders"), lake.table("totals")
    pointer = str(totals.at().metadata_location)
    return [
        stranger.read.format("delta").load(orders.location).count(),
        stranger.read.format("iceberg").load(pointer).count(),
    ]


def test_others_see_all_of_it_or_nothing(spark: SparkSession, lake: lw.Lake) -> None:
    databases = {d.name for d in spark.catalog.listDatabases()}
    with lake.transaction(spark=spark) as tx:
        tx.sql("INSERT INTO orders SELECT id + 10, name FROM totals")
        tx.sql("MERGE INTO totals t USING orders o ON t.id = o.id WHEN MATCHED THEN DELETE")
        assert as_others_see(spark, lake) == [4, 4]
        assert [lake.table(n).to_arrow().num_rows for n in FORMATS] == [4, 4]

    assert as_others_see(spark, lake) == [8, 0]
    assert [lake.table(n).to_arrow().num_rows for n in FORMATS] == [8, 0]
    assert {d.name for d in spark.catalog.listDatabases()} == databases


def test_what_is_rolled_back_leaves_no_file_and_no_name(spark: SparkSession, lake: lw.Lake) -> None:
    before, databases = files(lake), {d.name for d in spark.catalog.listDatabases()}

    tx = lake.transaction(spark=spark)
    for name in FORMATS:
        tx.sql(f"INSERT INTO {name} VALUES (7, 'seven')")
        tx.sql(f"UPDATE {name} SET name = 'x' WHERE id < 2")
    assert files(lake) > before
    tx.rollback()

    assert files(lake) == before
    assert {d.name for d in spark.catalog.listDatabases()} == databases
    assert as_others_see(spark, lake) == [4, 4]
    assert lake.outcome(tx.transaction_id).state == "rolled_back"


def test_after_a_commit_only_what_it_needs_stays(spark: SparkSession, lake: lw.Lake) -> None:
    before = files(lake)

    with lake.transaction(spark=spark) as tx:
        for name in FORMATS:
            tx.sql(f"INSERT INTO {name} VALUES (7, 'seven')")
            tx.sql(f"UPDATE {name} SET name = 'x' WHERE id = 7")

    new = {f for f in files(lake) - before if f"txn-{tx.transaction_id}" in f}
    known = {f"{n}/{f.path}" for n in FORMATS for f in lake.table(n).files()}
    assert new == {f for f in known if "txn-" in f}
    assert len(new) == len(FORMATS)


def test_a_statement_that_fails_ends_the_transaction(spark: SparkSession, lake: lw.Lake) -> None:
    before = files(lake)

    tx = lake.transaction(spark=spark)
    tx.sql("INSERT INTO orders VALUES (7, 'seven')")
    with pytest.raises(Exception, match="on purpose"):
        tx.sql("INSERT INTO orders SELECT raise_error('on purpose'), 'x' FROM range(3)")
    with pytest.raises(TransactionClosed):
        tx.sql("SELECT * FROM orders")

    assert files(lake) == before
    assert lake.table("orders").version == 1


def test_paths_and_other_catalogs_are_not_a_way_out(
    spark: SparkSession, lake: lw.Lake, tmp_path: Path
) -> None:
    orders = lake.table("orders").location
    spark.range(3).write.parquet(str(tmp_path / "landing"))

    with lake.transaction(spark=spark) as tx:
        for statement in (
            f"INSERT INTO delta.`{orders}` VALUES (1, 'x')",
            f"INSERT INTO delta.`{tmp_path}/elsewhere` VALUES (1, 'x')",
            f"UPDATE delta.`{orders}` SET name = 'x'",
            f"DELETE FROM delta.`file:{orders}`",
            f"OPTIMIZE delta.`{orders}`",
            f"CREATE TABLE delta.`{tmp_path}/elsewhere` (id BIGINT)",
            f"CREATE TABLE made USING delta LOCATION '{orders}' AS SELECT 1 AS id",
            f"ALTER TABLE orders SET LOCATION '{tmp_path}/elsewhere'",
            f"CREATE OR REPLACE TABLE delta.`{orders}` AS SELECT 1 AS id",
            f"TRUNCATE TABLE delta.`{orders}`",
            "RESTORE TABLE orders TO VERSION AS OF 0",
            "VACUUM orders",
            f"SELECT * FROM delta.`{orders}`",
            f"SELECT * FROM parquet.`file://{orders}/txn-1`",
            "INSERT INTO other.catalog.orders VALUES (1, 'x')",
            f"SELECT * FROM delta.`{orders}` VERSION AS OF 0",
            f"DROP TABLE delta.`{orders}`",
            f"ALTER TABLE delta.`{orders}` ADD COLUMN extra string",
        ):
            with pytest.raises(UnsupportedFeature):
                tx.sql(statement)
        # Refused before Spark saw them, so the transaction goes on.
        tx.sql(f"INSERT INTO orders SELECT id + 20, 'new' FROM parquet.`{tmp_path}/landing`")
        tx.sql("INSERT INTO lakeward.default.totals VALUES (30, 'thirty')")

    assert as_others_see(spark, lake) == [7, 5]


def test_a_chosen_id_commits_once(spark: SparkSession, lake: lw.Lake) -> None:
    for _ in range(2):
        with lake.transaction(spark=spark, transaction_id="batch-1") as tx:
            tx.sql("INSERT INTO orders VALUES (7, 'seven')")
            tx.append("totals", [{"id": 7, "name": "seven"}])

    assert as_others_see(spark, lake) == [5, 5]
    assert lake.table("orders").version == 2


def test_a_function_is_run_again_on_conflict(spark: SparkSession, lake: lw.Lake) -> None:
    runs: list[str] = []

    def work(tx: lw.Transaction) -> None:
        tx.sql("UPDATE orders SET name = concat(name, '!') WHERE id = 1")
        if not runs:
            with lake.transaction() as rival:
                rival.overwrite("orders", [{"id": 1, "name": "theirs"}], where="id = 1")
        runs.append(tx.transaction_id)

    result = lake.run(work, spark=spark)

    assert result.attempts == len(runs) == 2
    assert lake.table("orders").to_arrow(where="id = 1")["name"].to_pylist() == ["theirs!"]


def test_frames_may_outlive_a_transaction_and_nothing_stays_once_they_are_gone(
    spark: SparkSession, lake: lw.Lake
) -> None:
    def catalog(tx: lw.Transaction) -> Any:
        tag = re.findall(r"txn_\w+", tx.name("totals"))[0]
        return tx.spark._jsparkSession.sessionState().catalogManager().catalog(tag).icebergCatalog()

    with lake.transaction(spark=spark) as tx:
        frames = [tx.read(name) for name in FORMATS]
    with lake.transaction(spark=spark) as tx:
        left = catalog(tx)
        tx.sql("INSERT INTO totals VALUES (7, 'seven')")
    # pyspark itself keeps the newest session.
    for _ in range(2):
        tx = lake.transaction(spark=spark)
        tx.rollback()
        gc.collect()

    assert [frame.count() for frame in frames] == [4, 4]
    with pytest.raises(Exception, match="closed"):
        left.listNamespaces()


def test_only_one_cut_is_offered(spark: SparkSession, lake: lw.Lake) -> None:
    with pytest.raises(UnsupportedFeature, match="one cut"):
        lake.transaction(spark=spark, isolation="read_committed")


@pytest.mark.postgres
def test_a_store_on_postgres_that_only_python_reaches_is_enough(
    spark: SparkSession, postgres_url: str, tmp_path: Path
) -> None:
    def work(lake: lw.Lake) -> lw.Transaction:
        tx = lake.transaction(spark=spark)
        for name in FORMATS:
            tx.sql(
                f"MERGE INTO {name} t USING (SELECT id, 'new' AS name FROM range(3, 5)) s"
                " ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = s.name"
                " WHEN NOT MATCHED THEN INSERT *"
            )
        tx.sql("CREATE TABLE best USING iceberg AS SELECT * FROM orders WHERE id > 2")
        return tx

    with lw.open(postgres_url, warehouse=tmp_path / "warehouse") as lake:
        fill(lake)
        before = files(lake)

        work(lake).rollback()
        assert files(lake) == before
        assert as_others_see(spark, lake) == [4, 4]

        tx = work(lake)
        assert as_others_see(spark, lake) == [4, 4]
        assert tx.commit().versions == {"orders": 2, "totals": 2, "best": 1}

        assert as_others_see(spark, lake) == [5, 5]
        for name in (*FORMATS, "best"):
            rows = lake.table(name).to_arrow(where="id > 2").sort_by("id").to_pylist()
            assert rows == [{"id": 3, "name": "new"}, {"id": 4, "name": "new"}]
