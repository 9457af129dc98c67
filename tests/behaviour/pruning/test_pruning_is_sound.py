"""Whatever the condition: rows found with pruning are the rows that a full look finds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lakeward as lw

pytestmark = pytest.mark.slow

Condition: TypeAlias = tuple[str, Callable[[dict[str, Any]], bool | None]]
"""SQL, and the same in Python: true, false or unknown."""

_NUMBERS = itertools.count()
_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
_TYPES: dict[str, pa.DataType] = {
    "i": pa.int64(),
    "s": pa.string(),
    "d": pa.date32(),
    "t": pa.timestamp("us", "UTC"),
    "m": pa.decimal128(20, 3),
    "f": pa.float64(),
    "g": pa.float32(),
}
_LONG = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz"
_POOLS: dict[str, list[Any]] = {
    "i": [-(2**63), -1, 0, 1, 7, 2**53, 2**53 + 1, 2**63 - 1],
    "s": [
        "",
        "a",
        "b",
        _LONG,
        _LONG + "a",
        _LONG[:32],
        _LONG[:32] + "\U0010ffff",
        "é",
        "\U0010ffff",
    ],
    "d": [date(1, 1, 1), date(1969, 12, 31), date(2026, 1, 1), date(9999, 12, 31)],
    "t": [_EPOCH + timedelta(microseconds=n) for n in (-1001, -1, 0, 1, 999, 1000, 1001)],
    "m": [Decimal(n) for n in ("-1", "0", "0.001", "1.999", "2", "12345678901234567.891")],
    "f": [-math.inf, -1.0, -0.0, 0.0, 0.1, 1.0, math.inf, math.nan],
    "g": [-math.inf, -1.0, -0.0, 0.0, 0.5, 1.0, math.inf, math.nan],
}
_OPERATORS: dict[str, Callable[[int], bool]] = {
    "=": lambda order: order == 0,
    "<>": lambda order: order != 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}


def _value(column: str) -> st.SearchStrategy[Any]:
    return st.none() | st.sampled_from(_POOLS[column])


def _row() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({column: _value(column) for column in _TYPES})


def _literal(column: str, value: Any) -> str:
    match column:
        case "s":
            return "'" + value + "'"
        case "d":
            return (
                f"DATE '{value:%Y-%m-%d}'" if value.year > 999 else f"DATE '0001-01-0{value.day}'"
            )
        case "t":
            return f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S.%f}'"
        case "f" | "g" if not math.isfinite(value):
            return f"CAST('{value}' AS DOUBLE)"
        case _:
            return str(value)


def _order(left: Any, right: Any) -> int:
    """How SQL orders: NaN equals itself and is above all numbers."""
    if isinstance(left, float):
        a, b = (math.isnan(left), left), (math.isnan(right), right)
        if a[0] or b[0]:
            return int(a[0]) - int(b[0])
    return (left > right) - (left < right)


def _compare(column: str) -> st.SearchStrategy[Condition]:
    def build(operator: str, value: Any) -> Condition:
        holds = _OPERATORS[operator]
        return (
            f"{column} {operator} {_literal(column, value)}",
            lambda row: None if row[column] is None else holds(_order(row[column], value)),
        )

    return st.builds(build, st.sampled_from(sorted(_OPERATORS)), st.sampled_from(_POOLS[column]))


def _within(column: str) -> st.SearchStrategy[Condition]:
    def build(values: list[Any]) -> Condition:
        text = ", ".join(_literal(column, v) for v in values)
        return (
            f"{column} IN ({text})",
            lambda row: (
                None if row[column] is None else any(_order(row[column], v) == 0 for v in values)
            ),
        )

    return st.builds(build, st.lists(st.sampled_from(_POOLS[column]), min_size=1, max_size=3))


def _missing(column: str) -> st.SearchStrategy[Condition]:
    return st.sampled_from(
        [
            (f"{column} IS NULL", lambda row: row[column] is None),
            (f"{column} IS NOT NULL", lambda row: row[column] is not None),
        ]
    )


def _negated(condition: Condition) -> Condition:
    text, holds = condition

    def test(row: dict[str, Any]) -> bool | None:
        found = holds(row)
        return None if found is None else not found

    return f"NOT ({text})", test


def _joined(word: str, parts: list[Condition]) -> Condition:
    decisive = word == "OR"

    def test(row: dict[str, Any]) -> bool | None:
        found = [holds(row) for _, holds in parts]
        if decisive in found:
            return decisive
        return None if None in found else not decisive

    return f" {word} ".join(f"({text})" for text, _ in parts), test


_SIMPLE = st.sampled_from(sorted(_TYPES)).flatmap(
    lambda column: st.one_of(_compare(column), _within(column), _missing(column))
)
_CONDITION = st.recursive(
    _SIMPLE,
    lambda inner: st.one_of(
        inner.map(_negated),
        st.builds(_joined, st.sampled_from(["AND", "OR"]), st.lists(inner, min_size=2, max_size=3)),
    ),
    max_leaves=4,
)


@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    files=st.lists(st.lists(_row(), min_size=1, max_size=3), min_size=1, max_size=5),
    conditions=st.lists(_CONDITION, min_size=5, max_size=10),
)
def test_rows_found_with_pruning_are_the_rows_that_match(
    shared_lake: lw.Lake, files: list[list[dict[str, Any]]], conditions: list[Condition]
) -> None:
    name = f"space.sound_{next(_NUMBERS)}"
    table = shared_lake.create(name, {"id": pa.int64(), **_TYPES})
    rows = [{"id": n, **row} for n, row in enumerate(itertools.chain.from_iterable(files))]
    with shared_lake.transaction() as tx:
        left = iter(rows)
        for file in files:
            tx.append(name, list(itertools.islice(left, len(file))))

    for text, holds in conditions:
        expected = [row["id"] for row in rows if holds(row)]
        assert table.to_arrow(where=text)["id"].to_pylist() == expected, text
