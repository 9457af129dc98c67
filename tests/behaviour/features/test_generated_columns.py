"""Generated columns of any expression: computed where data lacks them, checked otherwise."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

import lakeward as lw
from lakeward.errors import ConstraintViolation, InvalidExpression, InvalidInput, UnsupportedFeature
from tests.behaviour.lakes import unchanged

pytestmark = pytest.mark.formats("delta")
_COLUMNS = (
    "id int64, price double, quantity int32 default 2, name string,"
    " total double generated always as (price * (quantity + 1)),"
    " big string generated always as (upper(coalesce(name, 'n, (y')))"
)


def test_values_are_computed_and_follow_their_sources(lake: lw.Lake) -> None:
    table = lake.create("t", _COLUMNS)
    table.append([{"id": 1, "price": 2.0, "name": "a"}, {"id": 2, "price": None, "name": None}])
    with lake.transaction() as tx:
        tx.update("t", set={"quantity": "quantity + 1"}, where="id = 1")
        tx.merge("t", [{"id": 3, "price": 1.0, "quantity": 4, "name": "c"}], on="id")
    found = {r["id"]: (r["total"], r["big"]) for r in table.to_arrow().to_pylist()}
    assert found == {1: (8.0, "A"), 2: (None, "N, (Y"), 3: (5.0, "C")}
    others = QueryBuilder().register("t", DeltaTable(table.location))
    rows = pa.table(others.execute("SELECT id, total, big FROM t")).to_pylist()
    assert {r["id"]: (r["total"], r["big"]) for r in rows} == found
    expression = DeltaTable(table.location).schema().fields[4].metadata
    assert expression["delta.generationExpression"] == "price * (quantity + 1)"


def test_given_values_must_be_right(lake: lw.Lake) -> None:
    table = lake.create("t", _COLUMNS)
    table.append([{"id": 1, "price": 2.0, "quantity": 1, "name": "a", "total": 4.0, "big": "A"}])
    with unchanged(lake), pytest.raises(ConstraintViolation) as caught:
        table.append([{"id": 1, "price": 2.0, "quantity": 1, "name": "a", "total": 5.0}])
    assert "generated as price * (quantity + 1)" in caught.value.what
    with unchanged(lake), pytest.raises(ConstraintViolation), lake.transaction() as tx:
        tx.update("t", set={"total": "0.0"}, where="id = 1")


def test_a_column_that_another_is_generated_from_stays(lake: lw.Lake) -> None:
    table = lake.create("t", _COLUMNS)
    with unchanged(lake):
        with pytest.raises(InvalidInput, match="total is generated from it"):
            table.alter().drop_column("price").commit()
        with pytest.raises(InvalidInput, match="big is generated from it"):
            table.alter().rename_column("name", "title").commit()
        with pytest.raises(InvalidInput, match="generated"):
            table.alter().set_default("total", "1.0").commit()


@pytest.mark.parametrize(
    ("clause", "error", "reason"),
    [
        ("generated always as (rand())", InvalidExpression, "RAND"),
        ("generated always as (b + 1)", InvalidExpression, "no column 'b'"),
        ("generated always as (a +", InvalidInput, "missing"),
        ("generated always", InvalidInput, "comes `always as"),
        ("default", InvalidInput, "literal"),
        ("default a", InvalidInput, "cannot look at column"),
    ],
)
def test_what_cannot_be_computed_is_refused(
    lake: lw.Lake, clause: str, error: type[Exception], reason: str
) -> None:
    with unchanged(lake), pytest.raises(error, match=reason):
        lake.create("t", f"a int64, b int64 {clause}")


def test_iceberg_has_no_generated_columns(lake: lw.Lake) -> None:
    with unchanged(lake), pytest.raises(UnsupportedFeature, match="generated"):
        lake.create("t", "a int64, b int64 generated always as (a + 1)", format="iceberg")


def test_a_foreign_table_is_written_or_refused_by_its_expression(
    lake: lw.Lake, tmp_path: Path
) -> None:
    for name, expression in (("ours", "a * 2"), ("sparks", "shiftleft(a, 1)")):
        fields = [
            pa.field("a", pa.int64()),
            pa.field("b", pa.int64(), metadata={"delta.generationExpression": expression}),
        ]
        DeltaTable.create(str(tmp_path / name), schema=pa.schema(fields))
        lake.adopt(name, tmp_path / name)
    lake.table("ours").append([{"a": 4}])
    assert lake.table("ours").to_arrow().to_pylist() == [{"a": 4, "b": 8}]
    with unchanged(lake), pytest.raises(UnsupportedFeature, match="generated column b") as caught:
        lake.table("sparks").append([{"a": 4}])
    assert "Spark" in str(caught.value.hint)
