"""Ibis on PySpark: expressions at a pinned cut, and writes by Spark in a transaction."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import ibis
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakeward as lw
from lakeward.integrations.ibis import LakeIbis, connect
from tests.support.invariants import check_lake


@pytest.fixture
def lake(tmp_path: Path) -> Generator[lw.Lake]:
    """A Delta table of orders, one of which is deleted by a vector, and two Iceberg tables."""
    vectors = {"delta.enableDeletionVectors": "true", "lakeward.mergeOnRead.fraction": "1"}
    with lw.open(tmp_path / "lake") as lake:
        orders = lake.create(
            "sales.orders", "id int64, customer string, amount int64", properties=vectors
        )
        customers = lake.create("crm.customers", "name string, discount int64", format="iceberg")
        due = lake.create("gold.due", "id int64, due int64, note string", format="iceberg")
        rows = [{"id": n, "customer": "ab"[n % 2], "amount": 10 * n} for n in range(1, 6)]
        orders.append(rows)
        orders.delete(where="id = 5")
        customers.append([{"name": "a", "discount": 1}, {"name": "b", "discount": 2}])
        due.append([{"id": 1, "due": 0, "note": "old"}])
        yield lake


@pytest.fixture
def con(spark: SparkSession, lake: lw.Lake) -> Generator[LakeIbis]:
    with connect(lake, engine="pyspark", spark=spark) as con:
        yield con


def _unsorted(expression: Any) -> list[tuple[Any, ...]]:
    found = expression.to_pyarrow()
    return list(zip(*(c.to_pylist() for c in found.columns), strict=True))


def _rows(expression: Any) -> list[tuple[Any, ...]]:
    return sorted(_unsorted(expression))


def _due(con: LakeIbis) -> Any:
    orders, customers = con.table("sales.orders"), con.table("customers", database="crm")
    joined = orders.join(customers, orders.customer == customers.name)
    return joined.select("id", due=joined.amount - joined.discount)


def test_an_upsert_joined_over_both_formats_and_a_new_table_are_one_commit(
    con: LakeIbis, lake: lw.Lake
) -> None:
    with con.transaction(message="what is due") as tx:
        con.upsert("gold.due", _due(con), on="id")
        con.create_table("gold.big", _due(con).filter(lambda t: t.due > 20), format="iceberg")
        con.create_table("gold.plain", _due(con), partition_by=["id"])

    assert tx.result is not None
    assert tx.result.versions.keys() == {"gold.due", "gold.big", "gold.plain"}
    found = lake.table("gold.due").to_arrow().sort_by("id").to_pylist()
    assert [(r["id"], r["due"], r["note"]) for r in found] == [
        (1, 8, "old"),
        (2, 19, None),
        (3, 28, None),
        (4, 39, None),
    ]
    assert _rows(con.table("gold.big")) == [(3, 28), (4, 39)]
    assert lake.table("gold.plain").partition_by == ["id"]
    assert sorted(lake.table("gold.plain").to_arrow()["id"].to_pylist()) == [1, 2, 3, 4]
    check_lake(lake, ["gold.due", "gold.big", "gold.plain"])

    def fail() -> None:
        with con.transaction():
            con.insert("gold.big", con.table("gold.big"))
            con.create_table("gold.never", schema=ibis.schema({"a": "int64"}))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert lake.table("gold.big").version == tx.result.versions["gold.big"]
    assert "gold.never" not in con.refresh().list_tables()
    with pytest.raises(lw.errors.AlreadyExists, match=r"gold\.big"):
        con.create_table("gold.big", schema=ibis.schema({"a": "int64"}))


def test_tables_are_read_at_their_versions_with_the_columns_that_they_had(
    con: LakeIbis, lake: lw.Lake
) -> None:
    before = con.table("sales.orders").count()
    customers = lake.table("crm.customers")
    customers.alter().rename_column("discount", "rebate").commit()
    lake.table("sales.orders").append([{"id": 9, "customer": "a", "amount": 1}])
    assert con.table("sales.orders").count().to_pyarrow().as_py() == 4
    con.refresh()
    assert con.table("sales.orders").count().to_pyarrow().as_py() == 5
    assert before.to_pyarrow().as_py() == 4, "an expression moved to another version"
    assert con.table("crm.customers").columns == ("name", "rebate")
    assert _rows(con.table("crm.customers")) == [("a", 1), ("b", 2)]
    customers.append([{"name": "c", "rebate": 3}])
    con.refresh()
    for version, columns, count in ((0, "discount", 0), (1, "discount", 2), (2, "rebate", 2)):
        table = con.table("crm.customers", version=version)
        assert (table.columns, table.count().to_pyarrow().as_py()) == (("name", columns), count)


def test_large_integers_beside_nulls_keep_all_digits(con: LakeIbis, lake: lw.Lake) -> None:
    large = 2**53 + 1
    con.insert("gold.due", pa.table({"id": [large, 2], "due": [None, large], "note": ["a", None]}))
    found = con.table("gold.due").filter(lambda t: t.id != 1)
    assert set(map(str, _unsorted(found))) == {f"({large}, None, 'a')", f"(2, {large}, None)"}
    con.create_table("gold.copy", found)
    assert set(lake.table("gold.copy").to_arrow()["due"].to_pylist()) == {large, None}


def test_memtables_changes_and_sql_are_expressions(con: LakeIbis, lake: lw.Lake) -> None:
    wanted = ibis.memtable(pa.table({"id": [2, 3]}))
    found = con.table("sales.orders").join(wanted, "id").select("id", "amount")
    assert _rows(found) == [(2, 20), (3, 30)]
    con.insert("gold.due", found.rename(due="amount").mutate(note=ibis.literal("m")))
    assert lake.table("gold.due").count() == 3
    con.insert("gold.due", pa.table({"id": [7], "due": [7], "note": [None]}), overwrite=True)
    assert lake.table("gold.due").to_arrow(columns=["id"]).to_pylist() == [{"id": 7}]
    with connect(lake) as other:
        con.insert("gold.due", other.table("gold.due"))
        with pytest.raises(lw.errors.InvalidInput, match="several connections"):
            con.insert("gold.due", con.table("gold.due").union(other.table("gold.due")))
    assert _rows(con.table("gold.due").select("id")) == [(7,), (7,)]
    changed = con.changes("sales.orders", since=2).select("id", "_change_type")
    assert _rows(changed) == [(5, "delete")]
    text = (
        "SELECT customer, sum(orders.amount) AS s FROM sales.orders JOIN crm.customers c"
        " ON c.name = customer GROUP BY customer"
    )
    assert _rows(con.sql(text)) == [("a", 60), ("b", 40)]
    with pytest.raises(lw.errors.UnsupportedFeature, match="DELETE"):
        con.sql("DELETE FROM gold.due")
    with pytest.raises(lw.errors.TableNotFound, match="nothing"):
        con.sql("SELECT * FROM nothing")


def test_an_expression_over_an_older_version_of_its_target_is_a_conflict(
    con: LakeIbis, lake: lw.Lake
) -> None:
    due = con.table("gold.due")
    raised = due.mutate(due=due.due + 1)
    lake.table("gold.due").update(set={"due": "100"}, where="id = 1")
    with pytest.raises(lw.errors.Conflict, match="refresh"):
        con.upsert("gold.due", raised, on="id")
    assert lake.table("gold.due").to_arrow()["due"].to_pylist() == [100]
