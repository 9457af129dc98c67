"""Ibis over a lake: expressions at a pinned cut, and writes from expressions by transactions."""

from __future__ import annotations

from collections.abc import Generator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.integrations.ibis import LakeIbis, connect

ibis = pytest.importorskip("ibis")
# Ibis 12 calls methods of DuckDB 1.5 that are deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:fetch_:DeprecationWarning")


@pytest.fixture
def lake(tmp_path: Path) -> Generator[lw.Lake]:
    """A lake with a Delta table of orders and an Iceberg table of customers."""
    with lw.open(tmp_path / "lake") as lake:
        lake.create("sales.orders", "id int64, customer string, amount int64")
        lake.create("crm.customers", "name string, discount int64", format="iceberg")
        lake.create("gold.due", "id int64, due int64, note string", format="iceberg")
        rows = [{"id": n, "customer": "ab"[n % 2], "amount": 10 * n} for n in range(1, 5)]
        lake.table("sales.orders").append(rows)
        lake.table("crm.customers").append(
            [{"name": "a", "discount": 1}, {"name": "b", "discount": 2}]
        )
        lake.table("gold.due").append([{"id": 1, "due": 0, "note": "old"}])
        yield lake


@pytest.fixture(params=["datafusion", "duckdb"])
def con(request: pytest.FixtureRequest, lake: lw.Lake) -> Generator[LakeIbis]:
    """A connection on each engine."""
    with connect(lake, engine=request.param) as con:
        yield con


def _rows(expression: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = expression.to_pyarrow().to_pylist()
    return found


def _due(con: LakeIbis) -> Any:
    orders, customers = con.table("sales.orders"), con.table("customers", database="crm")
    joined = orders.join(customers, orders.customer == customers.name)
    return joined.select("id", due=joined.amount - joined.discount)


def test_an_upsert_from_an_expression_over_both_formats_is_one_commit(
    con: LakeIbis, lake: lw.Lake
) -> None:
    done = con.upsert("gold.due", _due(con), on="id", message="what is due")

    assert done is not None
    assert done.versions == {"gold.due": 2}
    found = lake.table("gold.due").to_arrow().sort_by("id").to_pylist()
    assert [(r["id"], r["due"], r["note"]) for r in found] == [
        (1, 8, "old"),
        (2, 19, None),
        (3, 28, None),
        (4, 39, None),
    ]
    assert lake.table("gold.due").history(limit=1)[0].message == "what is due"
    assert con.versions["gold.due"] == 2


def test_tables_are_read_at_the_cut_until_it_is_refreshed(con: LakeIbis, lake: lw.Lake) -> None:
    before = con.table("sales.orders")
    assert before.count().to_pyarrow().as_py() == 4
    lake.table("sales.orders").append([{"id": 9, "customer": "a", "amount": 1}])
    assert con.table("sales.orders").count().to_pyarrow().as_py() == 4
    con.refresh()
    assert con.table("sales.orders").count().to_pyarrow().as_py() == 5
    assert before.count().to_pyarrow().as_py() == 4, "an expression moved to another version"
    assert con.table("sales.orders", version=0).count().to_pyarrow().as_py() == 0


def test_the_cut_is_pinned_against_vacuum_until_the_connection_is_closed(lake: lw.Lake) -> None:
    con = connect(lake)
    orders = con.table("sales.orders")
    lake.table("sales.orders").delete(where="id < 3")
    lake.table("sales.orders").vacuum(retention="0 seconds", force=True)
    assert orders.count().to_pyarrow().as_py() == 4
    files = len(list(Path(lake.warehouse).rglob("sales*/**/*.parquet")))
    con.close()
    lake.table("sales.orders").vacuum(retention="0 seconds", force=True)
    assert len(list(Path(lake.warehouse).rglob("sales*/**/*.parquet"))) < files


def test_memtables_are_joined(con: LakeIbis) -> None:
    wanted = ibis.memtable(pa.table({"id": [2, 3]}))
    found = con.table("sales.orders").join(wanted, "id").order_by("id").select("id", "amount")
    assert _rows(found) == [{"id": 2, "amount": 20}, {"id": 3, "amount": 30}]


def test_deleted_rows_and_renamed_columns_are_as_the_table_has_them(
    con: LakeIbis, lake: lw.Lake
) -> None:
    table = lake.table("crm.customers")
    table.alter().rename_column("discount", "rebate").commit()
    table.delete(where="name = 'a'")
    con.refresh()
    assert _rows(con.table("crm.customers")) == [{"name": "b", "rebate": 2}]


def test_change_data_is_a_table(con: LakeIbis, lake: lw.Lake) -> None:
    lake.table("sales.orders").update(set={"amount": "0"}, where="id = 2")
    con.refresh()
    lake.table("sales.orders").delete(where="true")
    changes = con.changes("sales.orders", since=2, key="id")
    kinds = changes.order_by("_change_type").select("id", "amount", "_change_type")
    for _ in range(2):  # not a stream that is used up
        assert _rows(kinds) == [
            {"id": 2, "amount": 0, "_change_type": "update_postimage"},
            {"id": 2, "amount": 20, "_change_type": "update_preimage"},
        ]


def test_a_table_is_made_from_an_expression(con: LakeIbis, lake: lw.Lake) -> None:
    made = con.create_table("gold.big", _due(con).filter(lambda t: t.due > 20), format="iceberg")
    assert sorted(r["id"] for r in _rows(made)) == [3, 4]
    assert lake.table("gold.big").format == "iceberg"
    with pytest.raises(lw.errors.AlreadyExists, match=r"gold\.big"):
        con.create_table("gold.big", schema=ibis.schema({"a": "int64"}))
    empty = con.create_table("gold.empty", schema=ibis.schema({"a": "int64", "b": "string"}))
    assert empty.columns == ("a", "b")


def test_computed_columns_are_written_with_the_values_of_the_expression(
    con: LakeIbis, lake: lw.Lake
) -> None:
    orders = con.table("sales.orders")
    made = orders.mutate(
        whole=ibis.literal(7),
        part=ibis.literal(1.25),
        size=orders.customer.length(),
        kind=ibis.cases((orders.id == 1, 10), else_=20),
        total=orders.amount.sum().over(),
        money=orders.amount.cast("decimal(12,2)") * 1.5,
    )
    con.create_table("gold.made", made)
    con.insert("gold.made", made, overwrite=True)

    expected = sorted(_rows(made), key=lambda row: row["id"])
    assert expected[0] == {
        "id": 1,
        "customer": "b",
        "amount": 10,
        "whole": 7,
        "part": 1.25,
        "size": 1,
        "kind": 10,
        "total": 100,
        "money": Decimal("15.00"),
    }
    found = lake.table("gold.made").to_arrow().to_pylist()
    assert sorted(found, key=lambda row: row["id"]) == expected


def test_rows_are_inserted_and_replaced(con: LakeIbis, lake: lw.Lake) -> None:
    con.insert("gold.due", _due(con).filter(lambda t: t.id == 2).mutate(note=ibis.literal("new")))
    assert lake.table("gold.due").count() == 2
    con.insert("gold.due", pa.table({"id": [7], "due": [7], "note": [None]}), overwrite=True)
    assert lake.table("gold.due").to_arrow(columns=["id"]).to_pylist() == [{"id": 7}]
    con.drop_table("gold.due")
    assert "gold.due" not in con.list_tables()


def test_writes_of_a_block_are_one_transaction_or_none(con: LakeIbis, lake: lw.Lake) -> None:
    with con.transaction(message="both") as tx:
        con.upsert("gold.due", _due(con), on="id")
        con.create_table("gold.copy", con.table("sales.orders"))
    assert tx.result is not None
    assert tx.result.versions == {"gold.due": 2, "gold.copy": 0}
    assert con.table("gold.copy").count().to_pyarrow().as_py() == 4

    def fail() -> None:
        with con.transaction():
            con.insert("gold.copy", con.table("sales.orders"))
            con.create_table("gold.never", con.table("sales.orders"), format="iceberg")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert lake.table("gold.copy").version == 0
    assert "gold.never" not in con.refresh().list_tables()


def test_an_expression_over_an_older_version_of_its_target_is_a_conflict(
    con: LakeIbis, lake: lw.Lake
) -> None:
    due = con.table("gold.due")
    raised = due.mutate(due=due.due + 1)
    lake.table("gold.due").update(set={"due": "100"}, where="id = 1")
    with pytest.raises(lw.errors.Conflict, match="refresh"):
        con.upsert("gold.due", raised, on="id")
    assert lake.table("gold.due").to_arrow()["due"].to_pylist() == [100]
    again = con.refresh().table("gold.due")
    con.upsert("gold.due", again.mutate(due=again.due + 1), on="id")
    assert lake.table("gold.due").to_arrow()["due"].to_pylist() == [101]


def test_sql_knows_tables_by_their_names(con: LakeIbis) -> None:
    found = con.sql("SELECT customer, sum(amount) AS s FROM sales.orders GROUP BY customer")
    assert _rows(found.order_by("customer").cast({"s": "int64"})) == [
        {"customer": "a", "s": 60},
        {"customer": "b", "s": 40},
    ]


def test_a_cast_is_compared_by_its_result(con: LakeIbis, lake: lw.Lake) -> None:
    """DataFusion compared the operand of the cast."""
    prices = lake.create("sales.prices", "id int64, price decimal(8,2)")
    prices.append([{"id": n, "price": Decimal(p)} for n, p in enumerate(["3.00", "3.45", "4.10"])])
    con.refresh()
    table = con.table("sales.prices")
    for kind in ("int8", "int32", "int64", "decimal(8, 0)"):
        cast = table.price.cast(kind)
        for condition in (cast == 3, cast.between(3, 3), cast.isin([3, 5]), ~(cast != 3)):
            found = _rows(table.filter(condition).select("id").order_by("id"))
            assert found == [{"id": 0}, {"id": 1}], condition
        later = table.mutate(v=cast).filter(lambda t: t.v > 3).select("id")
        assert _rows(later) == [{"id": 2}]


def test_bad_input_is_refused(lake: lw.Lake) -> None:
    with pytest.raises(lw.errors.InvalidInput, match="engine"):
        connect(lake, engine="oracle")
    with pytest.raises(lw.errors.InvalidInput, match="spark"):
        connect(lake, engine="duckdb", spark=object())
    with connect(lake) as con:
        with pytest.raises(lw.errors.TableNotFound, match="nothing"):
            con.table("nothing")
        with pytest.raises(lw.errors.VersionNotFound):
            con.table("sales.orders", version=99)
        with pytest.raises(lw.errors.InvalidInput, match="table"):
            con.insert("gold.due", con.table("gold.due").id.max())
        with connect(lake, engine="duckdb") as other:
            both = con.table("gold.due").union(other.table("gold.due"))
            with pytest.raises(lw.errors.InvalidInput, match="several connections"):
                con.insert("gold.due", both)
        with pytest.raises(lw.errors.UnsupportedFeature):
            con.sql("DELETE FROM gold.due")
