"""Values through parameters mean themselves, whatever is in them: nothing is pasted into SQL."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakeward as lw
from lakeward.errors import InvalidInput
from lakeward.model.parameters import spark_literal, where_text
from tests.behaviour.lakes import append

HOSTILE = [
    "it's",
    "x' OR '1'='1",
    "'; DROP TABLE t; --",
    "back\\slash",
    "trailing\\",
    "\\'",
    '"quoted"',
    "`tick`",
    "a\nb\tc",
    ":name ? $1 {x} %s",
    "/* comment */ -- x",
    "ünï 🦆",
    "",
]
VALUES: dict[str, list[Any]] = {
    "s": [*HOSTILE, None],
    "i": [0, -1, 2**63 - 1, -(2**63), None],
    "d": [0.1, -0.5, 1e300, None],
    "n": [Decimal("12.34"), Decimal("-0.01"), None],
    "day": [date(2026, 2, 28), date(1, 1, 1), None],
    "ts": [datetime(2026, 2, 28, 1, 2, 3, 456789, tzinfo=UTC), None],
    "b": [b"\x00'\\\xff", b"", None],
    "t": [True, False, None],
}
SCHEMA = (
    "k int64, s string, i int64, d double, n decimal(9,2), day date, ts timestamp, b binary,"
    " t boolean"
)


@pytest.fixture
def table(lake: lw.Lake) -> lw.Table:
    """A row for each value."""
    made = lake.create("t", SCHEMA)
    pairs = [(name, value) for name, values in VALUES.items() for value in values]
    empty = dict.fromkeys(VALUES)
    rows = [{"k": k, **empty, name: value} for k, (name, value) in enumerate(pairs)]
    append(lake, "t", rows)
    return made


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_each_value_finds_its_own_row(lake: lw.Lake, table: lw.Table, engine: str) -> None:
    del table
    pairs = [(name, value) for name, values in VALUES.items() for value in values]
    for k, (name, value) in enumerate(pairs):
        text = f"SELECT k FROM t WHERE {name} = :value"
        found = lake.sql(text, {"value": value}, engine=engine).to_arrow()["k"].to_pylist()
        assert found == ([] if value is None else [k]), (name, value)
        asked = lake.sql("SELECT CAST(? AS VARCHAR) AS v", [value], engine=engine)
        if isinstance(value, str):
            assert asked.to_pylist() == [{"v": value}]
    many = lake.sql("SELECT k FROM t WHERE s IN (:all)", {"all": HOSTILE}, engine=engine)
    assert len(many) == len(HOSTILE)
    assert len(lake.sql("SELECT k FROM t WHERE s IN (:none)", {"none": []}, engine=engine)) == 0
    with pytest.raises(InvalidInput, match="The list for :none is empty"):
        lake.sql("SELECT k FROM t WHERE s NOT IN (:none)", {"none": []}, engine=engine)


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_decimals_with_exponents_are_the_same_numbers(
    lake: lw.Lake, table: lw.Table, engine: str
) -> None:
    """DuckDB took 1E+3 for 1."""
    del table
    for text in ("1E+3", "-1E+2", "12E+5", "1E+37", "0E+3", "1E-3", "1.5"):
        query = "SELECT CAST(:v AS VARCHAR) AS v, CAST(:many AS VARCHAR) AS m FROM t LIMIT 1"
        params = {"v": Decimal(text), "many": [Decimal(text)]}
        row = lake.sql(query, params, engine=engine).to_pylist()[0]
        assert Decimal(row["v"]) == Decimal(row["m"]) == Decimal(text)
    with pytest.raises(InvalidInput, match="more than 308 digits"):
        lake.sql("SELECT 1 AS o WHERE 1 < :v", {"v": Decimal("1E+999999")}, engine=engine)


def test_an_empty_list_under_not_is_refused(lake: lw.Lake, table: lw.Table) -> None:
    """It became NULL, and NOT IN (NULL) is true for no row."""
    negated: list[tuple[str, Any]] = [
        ("s not in (:none)", {"none": ()}),
        ("s NOT IN (?)", [set()]),
        ("NOT (k >= 0 AND s IN (:none))", {"none": []}),
        ("k >= 0 AND NOT s IN (:none)", {"none": []}),
        ("NOT ((s IN (:none)) OR k < 0)", {"none": []}),
    ]
    for where, params in negated:
        with pytest.raises(InvalidInput, match="is empty, and under NOT it needs a value"):
            table.to_arrow(where=where, params=params)
        with pytest.raises(InvalidInput, match="is empty, and under NOT it needs a value"):
            table.delete(where=where, params=params)
    with pytest.raises(InvalidInput, match="is empty"), lake.transaction() as tx:
        tx.sql("DELETE FROM t WHERE s NOT IN (:none)", {"none": []})


def test_an_empty_list_beside_not_selects_no_row(lake: lw.Lake, table: lw.Table) -> None:
    none: dict[str, Any] = {"none": []}
    for where in (
        "NOT k < 0 AND s IN (:none)",
        "NOT (k < 0) AND (s IN (:none))",
        "k IS NOT NULL AND s IN (:none)",
    ):
        assert table.to_arrow(where=where, params=none).num_rows == 0
    query = "SELECT k FROM t WHERE NOT EXISTS (SELECT 1 FROM t AS u WHERE u.s IN (:none))"
    assert len(lake.sql(query, none)) == table.count()


def test_conditions_take_values_too(lake: lw.Lake, table: lw.Table) -> None:
    pairs = [(name, value) for name, values in VALUES.items() for value in values]
    for k, (name, value) in enumerate(pairs):
        wanted = [] if value is None else [k]
        where, params = f"{name} = :value", {"value": value}
        assert table.to_arrow(where=where, params=params)["k"].to_pylist() == wanted, (name, value)
        assert table.at().count(where, params=params) == len(wanted)
    assert len(table.to_polars(where="s in (:all)", params={"all": HOSTILE})) == len(HOSTILE)
    with lake.transaction() as tx:
        assert tx.read("t", where="s = ?", params=["it's"]).num_rows == 1
        tx.update("t", set={"s": "'done'"}, where="s = :s", params={"s": HOSTILE[1]})
        tx.delete("t", where="s = :s", params={"s": "trailing\\"})
        rows = [{"k": 99, **dict.fromkeys(VALUES), "s": "it's"}]
        tx.overwrite("t", rows, where="s = :s", params={"s": "it's"})
    assert table.count("s = 'done'") == 1
    assert table.count("s = :s", params={"s": "trailing\\"}) == 0
    assert table.to_arrow(where="s = :s", params={"s": "it's"})["k"].to_pylist() == [99]


def test_an_export_takes_values(table: lw.Table, tmp_path: Path) -> None:
    for n, value in enumerate(["it's", "trailing\\", None, date(2026, 2, 28)]):
        name = "day" if isinstance(value, date) else "s"
        where, params = f"{name} = :value", {"value": value}
        done = table.export(tmp_path / str(n), where=where, params=params)
        assert done.rows == table.count(where, params=params) == (0 if value is None else 1)
    done = table.at().export(tmp_path / "many", where="s in (?)", params=[HOSTILE])
    assert done.rows == len(HOSTILE)
    with pytest.raises(InvalidInput, match="without a condition"):
        table.export(tmp_path / "none", params={"value": 1})
    with pytest.raises(InvalidInput, match="no value for :value"):
        table.export(tmp_path / "none", where="s = :value", params={})
    assert not (tmp_path / "none").exists()


@settings(max_examples=300, deadline=None)
@given(st.text())
def test_any_text_is_the_same_after_it_was_written_and_read(text: str) -> None:
    from sqlglot import exp, parse_one

    found = parse_one(spark_literal(text), dialect="databricks")
    assert isinstance(found, exp.Literal)
    assert found.this == text


def test_places_are_found_where_values_are_meant_and_nowhere_else() -> None:
    params = {"a": 1, "b": "x"}
    for where, wanted in (
        ("i > :a and s=:b", "i > 1 and s='x'"),
        ("s = ':a' and i = :a and s < :b", "s = ':a' and i = 1 and s < 'x'"),
        ("s > :b and i = - :a -- :b", "s > 'x' and i = - 1 -- :b"),
    ):
        assert where_text(where, params) == wanted
    assert where_text("i = -:a", {"a": -1}) == "i = -(-1)"
    with pytest.raises(InvalidInput, match="no value for :c"):
        where_text("i = :c", params)
    with pytest.raises(InvalidInput, match="cannot be a parameter"):
        where_text("i = :c", {"c": object()})
    with pytest.raises(InvalidInput, match="without a condition"):
        where_text(None, {"c": 1})
