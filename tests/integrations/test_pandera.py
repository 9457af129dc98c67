"""Schemas of Pandera as expectations: the verdicts are those of Pandera itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandera.pandas as pp
import pandera.polars as pl_pandera
import polars as pl
import pytest

import lakeward as lw
from lakeward.errors import InvalidInput
from lakeward.integrations.pandera import expectations_of

SCHEMA = pp.DataFrameSchema(
    {
        "id": pp.Column("int64", [pp.Check.ge(1), pp.Check.isin([1, 2, 3, 4])], unique=True),
        "amount": pp.Column(
            "float64",
            [
                pp.Check.in_range(0, 100, include_max=False),
                pp.Check(lambda s: s < 50, name="small"),
            ],
            nullable=True,
        ),
        "name": pp.Column(
            str,
            [pp.Check.str_length(1, 5), pp.Check.str_startswith("a"), pp.Check.ne("it's")],
            nullable=True,
        ),
    },
    checks=[pp.Check(lambda f: f["amount"].fillna(0) < f["id"] * 30, name="in proportion")],
    unique=["id", "name"],
)
GOOD = [
    {"id": 1, "amount": 2.5, "name": "ann"},
    {"id": 2, "amount": None, "name": None},
]
BAD = [
    {"id": 2, "amount": 100.0, "name": "ann-marie"},
    {"id": 9, "amount": 60.0, "name": "it's"},
    {"id": 3, "amount": 99.0, "name": "bob"},
]


@pytest.fixture
def table(tmp_path: Path) -> Iterator[lw.Table]:
    with lw.open(tmp_path / "lake") as lake:
        yield lake.create("t", {"id": "int64", "amount": "double", "name": "string"})


def failed_by_pandera(schema: Any, rows: Any) -> set[tuple[str | None, str]]:
    try:
        schema.validate(rows, lazy=True)
    except pp.errors.SchemaErrors as errors:
        cases = errors.failure_cases
        return {(c, k) for c, k in zip(cases["column"], cases["check"], strict=True)}
    return set()


def test_rows_that_pandera_accepts_meet_the_expectations(table: lw.Table) -> None:
    table.append(GOOD)
    assert failed_by_pandera(SCHEMA, table.to_pandas()) == set()
    found = table.quality(expectations=expectations_of(SCHEMA))
    assert [(m.name, m.reason) for m in found.measurements if m.passed is not True] == []


def test_rows_that_pandera_refuses_fail_the_same_checks_as_often(table: lw.Table) -> None:
    table.append(GOOD)
    table.quality(expectations=expectations_of(SCHEMA))
    table.append(BAD)
    assert {check for _, check in failed_by_pandera(SCHEMA, table.to_pandas())} == {
        *("isin([1, 2, 3, 4])", "in_range(0, 100)", "small", "in proportion"),
        *("str_length(1, 5)", "str_startswith('a')", "not_equal_to(it's)", "field_uniqueness"),
    }
    found = table.quality(expectations=expectations_of(SCHEMA))
    assert {m.name: m.value for m in found.failed} == {
        "id isin": 1,
        "id unique": 1,
        "amount in_range": 1,
        "amount small": 3,
        "name str_length": 1,
        "name str_startswith": 2,
        "name not_equal_to": 1,
        "in proportion": 2,
    }
    # What SQL can say is counted in the new file only, or by its bounds.
    assert {m.origin for m in found.measurements if m.name == "id greater_than_or_equal_to"} == {
        "log"
    }


def test_columns_that_are_missing_or_of_another_type_are_counted(table: lw.Table) -> None:
    other = pp.DataFrameSchema(
        {
            "id": pp.Column("int32"),
            "gone": pp.Column("int64"),
            "maybe": pp.Column("int64", required=False),
            "amount": pp.Column("int64", coerce=True, nullable=True),
        }
    )
    found = {m.name: m for m in table.quality(expectations=expectations_of(other)).measurements}
    assert (found["columns"].value, found["columns"].passed) == (2, False)
    assert found["gone not null"].reason == "the table has no column 'gone'"


def test_models_and_schemas_of_polars_are_taken(table: lw.Table) -> None:
    class Order(pp.DataFrameModel):
        id: int = pp.Field(ge=1, unique=True)
        amount: float = pp.Field(lt=50, nullable=True)

    polars = pl_pandera.DataFrameSchema(
        {
            "id": pl_pandera.Column(
                pl.Int64,
                [
                    pl_pandera.Check.le(3),
                    pl_pandera.Check(lambda d: d.lazyframe.select(pl.col(d.key) > 1), name="many"),
                ],
            )
        },
        checks=[pl_pandera.Check(lambda d: d.lazyframe.select(pl.col("id") != 9), name="no nine")],
    )
    table.append([*GOOD, *BAD])
    model = table.quality(expectations=expectations_of(Order))
    assert {m.name: m.value for m in model.failed} == {"id unique": 1, "amount less_than": 3}
    found = table.quality(expectations=expectations_of(polars))
    assert {m.name: m.value for m in found.failed} == {
        "id less_than_or_equal_to": 1,
        "id many": 1,
        "no nine": 1,
    }


def test_plain_expectations_go_into_a_policy(table: lw.Table, tmp_path: Path) -> None:
    plain = expectations_of(SCHEMA, plain=True)
    assert "amount small" not in plain
    with lw.open(tmp_path / "lake") as lake:
        lake.set_policy("t", {"expectations": plain})
        table.append([*GOOD, *BAD])
        (found,) = lake.quality()
        assert "id isin" in {m.name for m in found.failed}
        with pytest.raises(InvalidInput, match="function"):
            lake.set_policy("t", {"expectations": {"x": {"measure": "check", "columns": ["id"]}}})
        with pytest.raises(InvalidInput, match="policy cannot keep"):
            lake.set_policy("t", {"expectations": expectations_of(SCHEMA)})


def test_a_check_that_raises_has_no_value_and_what_is_no_schema_is_refused(
    table: lw.Table,
) -> None:
    table.append(GOOD)

    def broken(rows: Any) -> float:
        message = f"hidden {rows}"
        raise ValueError(message)

    expected = {"x": {"measure": "check", "columns": ["id"], "check": broken}}
    (found,) = table.quality(expectations=expected).measurements
    assert (found.value, found.passed, found.reason) == (
        None,
        None,
        "the function raised ValueError",
    )
    with pytest.raises(InvalidInput, match="no schema of Pandera"):
        expectations_of(object())
