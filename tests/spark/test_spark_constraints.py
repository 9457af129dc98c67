"""Unique keys, foreign keys and the quarantine in transactions on Spark, for both formats."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakeward as lw
from lakeward.errors import ConstraintViolation
from tests.behaviour.lakes import append, data_files, ids
from tests.support.delta_rows import row_ids
from tests.support.invariants import check_lake

BOTH = pytest.mark.parametrize("table_format", ["delta", "iceberg"])


@pytest.fixture
def lake(tmp_path: Path) -> Generator[lw.Lake]:
    with lw.open(tmp_path / "lake") as opened:
        yield opened


@BOTH
def test_statements_and_frames_keep_unique_and_foreign_keys(
    spark: SparkSession, lake: lw.Lake, table_format: str
) -> None:
    key = {"key": lw.Unique("id")}
    lake.create("customers", {"id": "int64"}, format=table_format, constraints=key)
    lake.create(
        "orders",
        {"id": "int64", "customer": "int64"},
        format=table_format,
        constraints={
            **key,
            "customer": lw.ForeignKey("customer", references="customers", key="id"),
        },
    )
    append(lake, "customers", {"id": [1, 2, 3]})
    append(lake, "orders", {"id": [10, 11], "customer": [1, 2]})
    frame = spark.createDataFrame([(11, 1)], "id bigint, customer bigint")
    refused = {
        "INSERT INTO orders VALUES (10, 1)": "key",
        "INSERT INTO orders VALUES (12, 9)": "customer",
        "DELETE FROM customers WHERE id = 1": "customer",
    }

    for statement, constraint in refused.items():
        tx = lake.transaction(spark=spark)
        tx.sql(statement)
        with pytest.raises(ConstraintViolation) as caught:
            tx.commit()
        assert caught.value.constraint == constraint, statement
    tx = lake.transaction(spark=spark)
    tx.append("orders", frame)
    with pytest.raises(ConstraintViolation):
        tx.commit()
    with lake.transaction(spark=spark) as tx:
        tx.sql("DELETE FROM orders WHERE id = 11")
        tx.sql("DELETE FROM customers WHERE id IN (2, 3)")
        tx.append("orders", frame)
        tx.sql("UPDATE orders SET id = id + 1")

    assert ids(lake, "orders") == [11, 12]
    assert ids(lake, "customers") == [1]
    assert [v.constraint for v in lake.violations()] == ["key", *list(refused.values())[::-1]]


_QUARANTINED: dict[str, dict[str, Any]] = {
    "delta": {},
    "delta with vectors and a feed": {
        "policy": {"merge_on_read": True, "change_data_feed": True},
    },
    "delta with ids": {"properties": {"delta.enableRowTracking": "true"}},
    "iceberg": {"format": "iceberg"},
    "iceberg 3": {"format": "iceberg", "properties": {"format-version": "3"}},
}


@pytest.mark.parametrize("kind", list(_QUARANTINED))
@pytest.mark.always("vectors", "iceberg 3")
def test_rows_that_violate_are_quarantined_and_changed_ones_stay_as_they_were(
    spark: SparkSession, lake: lw.Lake, kind: str
) -> None:
    rules: dict[str, Any] = {
        "key": lw.Unique("id", on_violation="quarantine"),
        "positive": lw.Check("n > 0", on_violation="quarantine"),
    }
    table = lake.create("t", {"id": "int64", "n": "int64"}, constraints=rules, **_QUARANTINED[kind])
    append(lake, "t", {"id": [1, 2], "n": [10, 20]})
    append(lake, "t", {"id": [5, 6], "n": [50, 60]})

    with lake.transaction(spark=spark) as tx:
        tx.sql("INSERT INTO t VALUES (2, 1), (3, 30), (3, 31), (4, 40)")
    assert ids(lake, "t") == [1, 2, 3, 4, 5, 6]
    assert _aside(lake) == [(2, 1, "key"), (3, 31, "key")]
    with lake.transaction(spark=spark) as tx:
        tx.sql("INSERT INTO t VALUES (7, 70)")
        tx.sql("UPDATE t SET n = n - 20 WHERE id < 4")
        tx.sql("UPDATE t SET id = 6 WHERE id = 5")
        tx.sql("DELETE FROM t WHERE id = 4")
    assert _rows(lake) == {1: 10, 2: 20, 3: 10, 5: 50, 6: 60, 7: 70}
    assert _aside(lake)[2:] == [(1, -10, "positive"), (2, 0, "positive"), (6, 50, "key")]
    with lake.transaction(spark=spark) as tx:
        tx.sql(
            "MERGE INTO t USING (SELECT id, n FROM VALUES (1, 11), (2, -2), (8, 80), (9, -9)"
            " AS v (id, n)) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = s.n"
            " WHEN NOT MATCHED THEN INSERT *"
        )
    assert _rows(lake) == {1: 11, 2: 20, 3: 10, 5: 50, 6: 60, 7: 70, 8: 80}
    assert _aside(lake)[5:] == [(2, -2, "positive"), (9, -9, "positive")]
    place = table.location if table.format == "delta" else None
    if place is not None:
        rows = spark.read.format("delta").load(place).collect()
        assert {r["id"]: r["n"] for r in rows} == _rows(lake)
    if "feed" in kind:
        told = table.changes(since=table.version).read_all().to_pylist()
        assert {(r["id"], r["n"]) for r in told} == {(1, 10), (1, 11), (8, 80)}
    if kind == "delta with ids":
        assert len(row_ids(table)) == 7
    if "feed" not in kind:
        # Files that contain violating rows, which no commit refers to, are deleted.
        versions = (table.at(version=n) for n in range(table.version + 1))
        assert data_files(lake, "t") == {f.path for version in versions for f in version.files()}
    check_lake(lake, ["t", "t__quarantine"])


@pytest.mark.parametrize("kind", ["delta with vectors and a feed", "iceberg"])
def test_rows_that_earlier_transactions_rewrote_are_put_back(
    spark: SparkSession, lake: lw.Lake, kind: str
) -> None:
    rules = {"positive": lw.Check("n > 0", on_violation="quarantine")}
    table = lake.create("t", {"id": "int64", "n": "int64"}, constraints=rules, **_QUARANTINED[kind])
    # Files of several transactions, which may store ids of rows.
    for number in (1, 3):
        append(lake, "t", {"id": [number, number + 1], "n": [10 * number, 10 * number + 10]})
        with lake.transaction(spark=spark) as tx:
            tx.sql(f"UPDATE t SET n = n + 1 WHERE id = {number}")
    append(lake, "t", {"id": [5, 6], "n": [50, 60]})
    with lake.transaction(spark=spark) as tx:
        tx.sql("INSERT INTO t VALUES (7, 70), (8, 80)")
        tx.sql("UPDATE t SET n = -n WHERE id <> 8")
    assert _rows(lake) == {1: 11, 2: 20, 3: 31, 4: 40, 5: 50, 6: 60, 8: 80}
    assert [i for i, _, _ in _aside(lake)] == [1, 2, 3, 4, 5, 6, 7]
    check_lake(lake, ["t", "t__quarantine"])
    if table.format == "iceberg":
        table.alter().enable("row_lineage").commit()
        append(lake, "t", {"id": [9], "n": [90]})
        found = spark.read.format("iceberg").load(str(table.metadata_location))
        numbers = [r[0] for r in found.select("_row_id").collect()]
        assert len(set(numbers) - {None}) == len(numbers) == 8


@pytest.mark.parametrize("kind", ["delta", "delta with vectors and a feed", "iceberg"])
@pytest.mark.always("vectors", "iceberg")
def test_changed_rows_are_checked_that_a_later_statement_copies_or_marks(
    spark: SparkSession, lake: lw.Lake, kind: str
) -> None:
    """If the rows of a table have ids, no transaction on Spark writes its own rows again."""
    rules: dict[str, Any] = {
        "positive": lw.Check("n > 0", on_violation="quarantine"),
        "lucky": lw.Check("n <> 13", on_violation="warn"),
    }
    lake.create("t", {"id": "int64", "n": "int64"}, constraints=rules, **_QUARANTINED[kind])
    append(lake, "t", {"id": [1, 2, 3, 4, 5], "n": [10, 20, 30, 40, 50]})

    with lake.transaction(spark=spark) as tx:
        tx.sql("UPDATE t SET n = if(id = 4, -4, 13) WHERE id IN (3, 4)")
        tx.sql(
            "INSERT INTO t SELECT /*+ COALESCE(1) */ *"
            " FROM VALUES (10L, 100L), (11L, 110L), (12L, -1L)"
        )
        tx.sql("DELETE FROM t WHERE id = 10")
        tx.sql("DELETE FROM t WHERE id = 1")

    assert _rows(lake) == {2: 20, 3: 13, 4: 40, 5: 50, 11: 110}
    assert _aside(lake) == [(4, -4, "positive"), (12, -1, "positive")]
    found = {v.constraint: v.count for v in lake.violations(table="t")}
    assert found == {"lucky": 1, "positive": 2}
    check_lake(lake, ["t", "t__quarantine"])


def _rows(lake: lw.Lake) -> dict[int, int]:
    found = lake.table("t").to_arrow().to_pylist()
    assert len({r["id"] for r in found}) == len(found)
    return {r["id"]: r["n"] for r in found}


def _aside(lake: lw.Lake) -> list[tuple[int, int | None, str]]:
    table = lake.table("t__quarantine")
    out: list[tuple[int, int | None, str]] = []
    seen: set[tuple[int, int | None, str]] = set()
    for version in range(table.version + 1):
        rows = table.at(version=version).to_arrow().to_pylist()
        new = {(r["id"], r["n"], r["_constraint"]) for r in rows} - seen
        out += sorted(new)
        seen |= new
    return out


@pytest.mark.always("iceberg")
@BOTH
def test_rows_without_a_required_value_are_quarantined(
    spark: SparkSession, lake: lw.Lake, table_format: str
) -> None:
    rules = {"whole": lw.NotNull("n", on_violation="quarantine")}
    columns = "id int64 not null, n int64 not null"
    table = lake.create("t", columns, format=table_format, constraints=rules)
    append(lake, "t", {"id": [1, 2], "n": [10, 20]})

    with lake.transaction(spark=spark) as tx:
        tx.sql("INSERT INTO t VALUES (3, 30), (4, NULL)")
        tx.sql("UPDATE t SET n = NULL WHERE id = 1")
        tx.sql(
            "MERGE INTO t USING (SELECT id, n FROM VALUES (2, NULL), (5, NULL), (6, 60)"
            " AS v (id, n)) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = s.n"
            " WHEN NOT MATCHED THEN INSERT *"
        )
    assert _rows(lake) == {1: 10, 2: 20, 3: 30, 6: 60}
    assert _aside(lake) == [(n, None, "whole") for n in (1, 2, 4, 5)]
    with lake.transaction(spark=spark) as tx:
        tx.append("t", spark.createDataFrame([(7, None), (8, 80)], "id bigint, n bigint"))
    assert _rows(lake) == {1: 10, 2: 20, 3: 30, 6: 60, 8: 80}
    assert _aside(lake)[4:] == [(7, None, "whole")]
    tx = lake.transaction(spark=spark)
    tx.sql("INSERT INTO t VALUES (NULL, 1)")
    with pytest.raises(ConstraintViolation, match="Column id of t is required"):
        tx.commit()
    if table_format == "delta":
        assert spark.read.format("delta").load(table.location).count() == 5
    check_lake(lake, ["t", "t__quarantine"])
