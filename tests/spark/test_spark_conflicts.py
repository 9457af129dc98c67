"""What a transaction on Spark does when others commit first, and which strategies it takes."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakeward as lw
from lakeward.errors import Conflict, UnsupportedFeature
from lakeward.write.transaction.strategy import Strategies

FORMATS = ("delta", "iceberg")
INSERT_ONLY = (
    "MERGE INTO {table} t USING (SELECT id + 3 AS id, 'ours' AS name FROM range(2)) s"
    " ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
)
REPLAYED: dict[str, Any] = {
    "last writer": lw.LastWriterWins(key="id"),
    "a function": lambda _: "ours",
    "last writer for a table": {"delta": "fail", "iceberg": lw.LastWriterWins(key="id")},
    "a function for a table": {"delta": lambda _: "theirs"},
    "for a table that is not there": {"elsewhere": lambda _: "fail"},
}
replayed = pytest.mark.parametrize("wanted", REPLAYED.values(), ids=REPLAYED)
formats = pytest.mark.parametrize("table", FORMATS)


@pytest.fixture
def lake(tmp_path: Path) -> Generator[lw.Lake]:
    with lw.open(tmp_path / "lake") as opened:
        for name in FORMATS:
            opened.create(name, {"id": "int64", "name": "string"}, format=name)
        with opened.transaction() as tx:
            for name in FORMATS:
                tx.append(name, [{"id": 1, "name": "base"}])
        yield opened


def append(lake: lw.Lake, table: str) -> None:
    with lake.transaction() as rival:
        rival.append(table, [{"id": 2, "name": "theirs"}])


def ids(lake: lw.Lake, table: str) -> list[int]:
    return sorted(lake.table(table).to_arrow()["id"].to_pylist())


@replayed
def test_what_replays_a_change_is_refused_when_the_transaction_begins(
    spark: SparkSession, lake: lw.Lake, wanted: Any
) -> None:
    databases = len(spark.catalog.listDatabases())

    with pytest.raises(UnsupportedFeature) as caught:
        lake.transaction(spark=spark, on_conflict=wanted)

    assert "'fail'" in str(caught.value)
    assert "lake.run" in str(caught.value)
    assert len(spark.catalog.listDatabases()) == databases


@replayed
def test_a_function_is_not_run_with_what_replays_a_change(
    spark: SparkSession, lake: lw.Lake, wanted: Any
) -> None:
    def never(tx: lw.Transaction) -> None:
        raise AssertionError(tx)

    with pytest.raises(UnsupportedFeature):
        lake.run(never, spark=spark, on_conflict=wanted)


@pytest.mark.always("None-delta", "fail-iceberg", "wanted2-delta")
@formats
@pytest.mark.parametrize("wanted", [None, "fail", {"delta": "fail", "iceberg": "fail"}])
def test_a_merge_that_only_inserts_loses_to_an_append_and_leaves_nothing(
    spark: SparkSession, lake: lw.Lake, table: str, wanted: Any
) -> None:
    tx = lake.transaction(spark=spark, on_conflict=wanted)
    tx.sql(INSERT_ONLY.format(table=table))
    append(lake, table)

    with pytest.raises(Conflict):
        tx.commit()

    assert ids(lake, table) == [1, 2]
    assert lake.table(table).version == 2


@pytest.mark.always("None-iceberg", "retry-delta", "wanted2-iceberg")
@formats
@pytest.mark.parametrize("wanted", [None, "retry", {"delta": "retry", "iceberg": "retry"}])
def test_a_run_merges_again_on_what_others_appended(
    spark: SparkSession, lake: lw.Lake, table: str, wanted: Any
) -> None:
    runs: list[lw.Transaction] = []

    def work(tx: lw.Transaction) -> None:
        tx.sql(INSERT_ONLY.format(table=table))
        if not runs:
            append(lake, table)
        runs.append(tx)

    result = lake.run(work, spark=spark, on_conflict=wanted)

    assert result.attempts == len(runs) == 2
    assert ids(lake, table) == [1, 2, 3, 4]


@formats
@pytest.mark.parametrize("strategy", [lw.LastWriterWins(key="id"), lambda _: "ours"])
def test_a_change_made_by_spark_is_never_replayed(
    spark: SparkSession, lake: lw.Lake, table: str, strategy: Any
) -> None:
    """Also where a strategy that would replay it got past the refusal."""
    tx = lake.transaction(spark=spark)
    tx._lifecycle.strategies = Strategies(strategy)
    tx.sql(INSERT_ONLY.format(table=table))
    append(lake, table)

    with pytest.raises(Conflict):
        tx.commit()

    assert ids(lake, table) == [1, 2]
    assert lake.table(table).version == 2


@formats
def test_a_table_that_was_added_to_first_is_seen_and_changed_at_one_cut(
    spark: SparkSession, lake: lw.Lake, table: str
) -> None:
    """Delta takes the cut with the first look, Iceberg with the first write."""
    tx = lake.transaction(spark=spark)
    tx.sql(f"INSERT INTO {table} VALUES (10, 'ours')")
    append(lake, table)
    seen = sorted(r.id for r in tx.sql(f"SELECT id FROM {table}").collect())
    tx.sql(f"UPDATE {table} SET name = concat(name, '!')")

    if table == "delta":
        tx.commit()
        assert seen == [1, 2, 10]
        names = ["base!", "theirs!", "ours!"]
    else:
        with pytest.raises(Conflict):
            tx.commit()
        assert seen == [1, 10]
        names = ["base", "theirs"]
    assert lake.table(table).to_arrow().sort_by("id")["name"].to_pylist() == names


@formats
def test_rows_that_are_only_added_meet_no_conflict(
    spark: SparkSession, lake: lw.Lake, table: str
) -> None:
    tx = lake.transaction(spark=spark)
    tx.sql(f"INSERT INTO {table} VALUES (10, 'ours')")
    append(lake, table)
    other = FORMATS[1 - FORMATS.index(table)]
    assert tx.sql(f"SELECT id FROM {other}").count() == 1
    tx.commit()

    assert ids(lake, table) == [1, 2, 10]


def add_column(lake: lw.Lake) -> None:
    lake.table("delta").alter().add_column("extra", "int64").commit()
    lake.table("delta").update(set={"extra": "5"})


def drop_and_add_column(lake: lw.Lake) -> None:
    lake.table("delta").alter().drop_column("name").commit()
    lake.table("delta").alter().add_column("name", "string").commit()
    lake.table("delta").update(set={"name": "'new'"})


def delete_by_vectors(lake: lw.Lake) -> None:
    lake.table("delta").alter().set_property("delta.enableDeletionVectors", "true").commit()
    lake.table("delta").delete(where="id = 3")


MERGE = (
    "MERGE INTO delta t USING (SELECT 1L AS id) s ON t.id = s.id"
    " WHEN MATCHED THEN UPDATE SET name = 'ours'"
)
ALTERED: dict[str, tuple[Callable[[lw.Lake], None], str, list[dict[str, Any]]]] = {
    "add column": (
        add_column,
        MERGE,
        [
            {"id": 1, "name": "ours", "extra": 5},
            {"id": 2, "name": "base", "extra": 5},
            {"id": 3, "name": "base", "extra": 5},
            {"id": 5000, "name": "ours", "extra": None},
        ],
    ),
    "drop and add column": (
        drop_and_add_column,
        "DELETE FROM delta WHERE id = 1",
        [{"id": 2, "name": "new"}, {"id": 3, "name": "new"}, {"id": 5000, "name": "ours"}],
    ),
    "deletion vectors": (
        delete_by_vectors,
        "UPDATE delta SET name = 'ours' WHERE id = 1",
        [
            {"id": 1, "name": "ours"},
            {"id": 2, "name": "base"},
            {"id": 5000, "name": "ours"},
        ],
    ),
}


@pytest.mark.always("add column", "deletion vectors")
@pytest.mark.parametrize("kind", ALTERED)
def test_rows_are_not_changed_under_a_definition_from_before_the_cut(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    """The branch was made before others altered the table, and the cut is taken after that."""
    alter, statement, expected = ALTERED[kind]
    mapped = {"delta.columnMapping.mode": "name"}
    runs: list[int] = []
    with lw.open(tmp_path / "other") as lake:
        lake.create("delta", {"id": "int64", "name": "string"}, properties=mapped)
        lake.table("delta").append({"id": list(range(1, 1001)), "name": ["base"] * 1000})

        def work(tx: lw.Transaction) -> None:
            tx.append("delta", spark.sql("SELECT 5000L AS id, 'ours' AS name"))
            if not runs:
                alter(lake)
            runs.append(1)
            tx.sql(statement)

        result = lake.run(work, spark=spark)

        rows = lake.table("delta").to_arrow(where="id < 4 OR id = 5000").sort_by("id")
        assert rows.to_pylist() == expected
        assert result.attempts == 2
