"""Tables made inside a transaction on Spark: there with the rest of it, or not at all."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lakeward as lw
from lakeward.errors import AlreadyExists, InvalidInput, TableNotFound
from tests.support.invariants import check_lake
from tests.support.leases import run_out

BOTH = pytest.mark.parametrize("table_format", ["delta", "iceberg"])


@pytest.fixture
def lake(tmp_path: Path) -> Generator[lw.Lake]:
    with lw.open(tmp_path / "lake") as opened:
        opened.create("orders", {"id": "int64", "part": "string"})
        with opened.transaction() as tx:
            tx.append("orders", [{"id": n, "part": "ab"[n % 2]} for n in range(6)])
        yield opened


@BOTH
def test_a_table_made_from_a_query_appears_with_the_rest(
    spark: SparkSession, lake: lw.Lake, table_format: str
) -> None:
    with lake.transaction(spark=spark) as tx:
        tx.sql(
            f"CREATE TABLE gold.totals USING {table_format} PARTITIONED BY (part) COMMENT 'sums'"
            " AS SELECT part, count(*) AS n, max(orders.id) AS newest FROM orders GROUP BY part"
        )
        tx.sql("INSERT INTO gold.totals VALUES ('c', 0, NULL)")
        tx.sql("DELETE FROM orders WHERE id = 0")
        assert tx.sql("SELECT sum(n) FROM gold.totals").first()[0] == 6
        with pytest.raises(TableNotFound):
            lake.table("gold.totals")

    table = lake.table("gold.totals")
    assert table.to_arrow().sort_by("part").to_pylist() == [
        {"part": "a", "n": 3, "newest": 4},
        {"part": "b", "n": 3, "newest": 5},
        {"part": "c", "n": 0, "newest": None},
    ]
    assert table.partition_by == ["part"]
    newest = table.history(limit=1)[0]
    assert (newest.transaction_id, newest.operation) == (
        tx.transaction_id,
        "CREATE TABLE AS SELECT",
    )
    assert tx.commit().versions == {"gold.totals": table.version, "orders": 2}
    check_lake(lake, ["orders", "gold.totals"])
    with lake.transaction(spark=spark) as tx:
        tx.sql("UPDATE gold.totals SET n = n + 1 WHERE part = 'c'")
    assert table.to_arrow(where="part = 'c'")["n"].to_pylist() == [1]


@BOTH
def test_a_table_of_a_transaction_that_is_rolled_back_was_never_there(
    spark: SparkSession, lake: lw.Lake, table_format: str
) -> None:
    tx = lake.transaction(spark=spark)
    tx.sql(f"CREATE TABLE copy USING {table_format} AS SELECT * FROM orders")
    tx.rollback()

    assert [t.name for t in lake.tables()] == ["orders"]
    assert not [p for p in Path(lake.warehouse, "copy").rglob("*") if p.is_file()]
    lake.create("copy", {"id": "int64"}, format=table_format)


@BOTH
def test_an_empty_table_is_declared(spark: SparkSession, lake: lw.Lake, table_format: str) -> None:
    with lake.transaction(spark=spark) as tx:
        tx.sql(f"CREATE TABLE made (id BIGINT NOT NULL, name STRING) USING {table_format}")
        tx.sql("CREATE TABLE IF NOT EXISTS made AS SELECT 1")

    table = lake.table("made")
    assert [(f.name, f.nullable) for f in table.schema] == [("id", False), ("name", True)]
    assert (table.version, table.to_arrow().num_rows) == (0, 0)
    with lake.transaction(spark=spark) as tx:
        tx.append("made", [{"id": 1}])
    check_lake(lake, ["orders", "made"])


@BOTH
def test_a_table_is_replaced_and_keeps_its_older_versions(
    spark: SparkSession, lake: lw.Lake, table_format: str
) -> None:
    table = lake.create("t", {"id": "int64", "v": "string"}, format=table_format)
    with lake.transaction() as tx:
        tx.append("t", [{"id": n, "v": "x"} for n in range(3)])

    with lake.transaction(spark=spark) as tx:
        tx.sql("INSERT INTO t VALUES (3, 'y')")
        tx.sql("CREATE OR REPLACE TABLE t AS SELECT id * 10 AS id, v || '!' AS w FROM t")
        tx.sql("DELETE FROM t WHERE id = 0")

    found = [(10, "x!"), (20, "x!"), (30, "y!")]
    assert sorted(tuple(r.values()) for r in table.to_arrow().to_pylist()) == found
    assert table.schema.names == ["id", "w"]
    assert (table.version, table.at(version=1).to_arrow().column_names) == (2, ["id", "v"])
    with lake.transaction(spark=spark) as tx:
        seen = tx.sql("SELECT * FROM t").collect()
        assert sorted(tuple(r) for r in seen) == found
        tx.sql("CREATE OR REPLACE TABLE t (id BIGINT NOT NULL, z INT) COMMENT 'new'")
        tx.sql("INSERT INTO t VALUES (1, 2)")
    assert table.to_arrow().to_pylist() == [{"id": 1, "z": 2}]
    assert not table.definition.schema.by_name["id"].nullable
    check_lake(lake, ["orders", "t"])


@BOTH
def test_a_table_of_the_transaction_is_replaced_and_stays_if_that_is_refused(
    spark: SparkSession, lake: lw.Lake, table_format: str
) -> None:
    with lake.transaction(spark=spark) as tx:
        tx.sql(f"CREATE TABLE t USING {table_format} AS SELECT id FROM orders")
        for refused in ("PARTITIONED BY (missing) AS SELECT 1 AS id", "AS SELECT 1 AS a, 2 AS a"):
            with pytest.raises(InvalidInput):
                tx.sql(f"CREATE OR REPLACE TABLE t USING {table_format} {refused}")
            assert tx.sql("SELECT sum(id) FROM t").first()[0] == 15
        tx.sql(f"CREATE OR REPLACE TABLE t USING {table_format} AS SELECT id + 1 AS k FROM t")
        tx.sql("INSERT INTO t VALUES (9)")
    assert sorted(lake.table("t").to_arrow()["k"].to_pylist()) == [1, 2, 3, 4, 5, 6, 9]
    check_lake(lake, ["orders", "t"])


def test_a_name_that_is_taken_is_refused_at_once_or_at_the_commit(
    spark: SparkSession, lake: lw.Lake
) -> None:
    with lake.transaction(spark=spark) as tx:
        with pytest.raises(AlreadyExists):
            tx.sql("CREATE TABLE orders AS SELECT 1 AS id")
        tx.sql("INSERT INTO orders VALUES (10, 'c')")

    tx = lake.transaction(spark=spark)
    tx.sql("INSERT INTO orders VALUES (11, 'c')")
    tx.sql("CREATE TABLE rival AS SELECT 1 AS id")
    theirs = lake.create("rival", {"id": "int64"})
    with lake.transaction() as other:
        other.append("rival", [{"id": 7}])
    with pytest.raises(AlreadyExists):
        tx.commit()

    assert theirs.to_arrow()["id"].to_pylist() == [7]
    assert lake.table("orders").version == 2


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE made AS SELECT id, id FROM orders",
        "CREATE TABLE made USING csv AS SELECT 1 AS id",
        "CREATE TABLE other.catalog.made AS SELECT 1 AS id",
    ],
)
def test_what_would_make_no_table_of_the_lake_is_refused(
    spark: SparkSession, lake: lw.Lake, statement: str
) -> None:
    tx = lake.transaction(spark=spark)
    with pytest.raises(InvalidInput):
        tx.sql(statement)
    tx.rollback()

    assert [t.name for t in lake.tables()] == ["orders"]


@BOTH
def test_files_of_a_table_that_never_came_to_be_are_cleaned_up(
    spark: SparkSession, lake: lw.Lake, table_format: str
) -> None:
    tx = lake.transaction(spark=spark)
    tx.sql(f"CREATE TABLE copy USING {table_format} AS SELECT * FROM orders")
    assert any(Path(lake.warehouse, "copy").rglob("*.parquet"))

    # As if its process had died.
    run_out(lake, tx.transaction_id)
    lw.open(lake.warehouse).close()

    assert not [p for p in Path(lake.warehouse, "copy").rglob("*") if p.is_file()]


@BOTH
def test_a_table_made_by_a_call_is_filled_and_appears_with_the_rest(
    spark: SparkSession, lake: lw.Lake, table_format: str
) -> None:
    with lake.transaction(spark=spark) as tx:
        tx.create(
            "made",
            "id int64 not null, part string",
            format=table_format,
            partition_by=["part"],
            comment="by a call",
        )
        with pytest.raises(AlreadyExists):
            tx.create("orders", "id int64")
        tx.append("made", tx.sql("SELECT id, part FROM orders WHERE id < 3"))
        tx.create("like_it", like=tx.read("made"), format=table_format)
        assert tx.sql("SELECT count(*) FROM made").first()[0] == 3

    made = lake.table("made")
    assert sorted(made.to_arrow()["id"].to_pylist()) == [0, 1, 2]
    assert (made.format, made.partition_by) == (table_format, ["part"])
    assert not made.schema.by_name["id"].nullable
    assert lake.table("like_it").schema.names == ["id", "part"]
    check_lake(lake, ["orders", "made", "like_it"])
