"""New values of columns: SQL expressions as text, or plain values of Python."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

import lakeward as lw
from lakeward.errors import InvalidExpression, InvalidInput, TableNotFound
from tests.behaviour.lakes import unchanged
from tests.support.tables import table_of

pytestmark = pytest.mark.before_the_store

_TABLE = table_of(
    id="int64",
    name="string",
    amount="double",
    price="decimal(10,2)",
    tiny="decimal(38,30)",
    day="date",
    at="timestamp",
    wall="timestamp_ntz",
    ok="boolean",
)
_ROW = dict.fromkeys(("name", "amount", "price", "tiny", "day", "at", "wall", "ok"))
_NOON = datetime(2026, 1, 2, 12)  # noqa: DTZ001  a wall clock has no zone
_SMALL = Decimal("0.000000123456789012345678900000")
_EAST = timezone(timedelta(hours=2))

_VALUES: dict[str, tuple[str, Any, Any]] = {
    "int": ("amount", 5, 5.0),
    "negative": ("id", -(2**63), -(2**63)),
    "float": ("amount", 1e-7, 1e-7),
    "decimal": ("price", Decimal("2.50"), Decimal("2.50")),
    "small decimal": ("tiny", _SMALL, _SMALL),
    "int in decimal": ("price", 5, Decimal("5.00")),
    "true": ("ok", True, True),
    "null": ("name", None, None),
    "date": ("day", date(2026, 1, 2), date(2026, 1, 2)),
    "moment": ("at", datetime(2026, 1, 2, 12, tzinfo=_EAST), datetime(2026, 1, 2, 10, tzinfo=UTC)),
    "without a zone": ("at", _NOON, _NOON.replace(tzinfo=UTC)),
    "wall clock": ("wall", _NOON, _NOON),
    "text": ("name", "'bob'", "bob"),
    "expression": ("id", "id + 1", 2),
}


@pytest.mark.parametrize("kind", _VALUES)
@pytest.mark.parametrize("operation", ["update", "merge"])
def test_plain_values_are_set(shared_lake: lw.Lake, name: str, kind: str, operation: str) -> None:
    column, given, expected = _VALUES[kind]
    _TABLE.rows([{"id": 1, **_ROW}]).make(shared_lake, name)

    with shared_lake.transaction() as tx:
        if operation == "update":
            tx.update(name, set={column: given})
        else:
            value = "target.id + 1" if given == "id + 1" else given
            tx.merge(name, {"id": [1]}, on="id", matched={column: value}, not_matched=None)

    assert shared_lake.table(name).to_arrow()[column].to_pylist() == [expected]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"name": "bob"}, "\"'bob'\""),
        ({"name": "bob smith"}, "\"'bob smith'\""),
        ({"name": "O'Brien"}, "\"'O''Brien'\""),
        ({"name": b"bob"}, "type bytes"),
        ({"amount": float("nan")}, "type float"),
        ({"amount": [5]}, "type list"),
        ({"nmae": 5}, "Did you mean 'name'"),
        ({"id": 2**63}, "9223372036854775808"),
        ({"id": 1.5}, "1.5"),
    ],
)
def test_values_that_cannot_be_set_are_explained(
    shared_lake: lw.Lake, name: str, values: dict[str, Any], message: str
) -> None:
    _TABLE.make(shared_lake, name)

    with unchanged(shared_lake), pytest.raises((InvalidInput, InvalidExpression)) as caught:
        _update(shared_lake, name, values)

    assert message in str(caught.value)


def _update(lake: lw.Lake, name: str, values: dict[str, Any]) -> None:
    with lake.transaction() as tx:
        tx.update(name, set=values)


def test_a_condition_says_that_text_needs_quotes(shared_lake: lw.Lake, name: str) -> None:
    _TABLE.make(shared_lake, name)

    with pytest.raises(InvalidExpression, match="single quotes: 'bob'"):
        shared_lake.table(name).to_arrow(where="name = bob")


def test_a_typo_in_the_name_of_a_table_gets_a_suggestion(shared_lake: lw.Lake, name: str) -> None:
    _TABLE.make(shared_lake, f"{name}_orders")
    space, _, bare = name.partition(".")
    expected = f"Did you mean {name}_orders"

    for given in (f"{name}_order", f"{bare}_orders", f"{space}.{bare}_oders"):
        with pytest.raises(TableNotFound, match=expected):
            shared_lake.table(given)
        with pytest.raises(TableNotFound, match=expected):
            shared_lake.transaction().append(given, [])
        with pytest.raises(TableNotFound, match=expected):
            shared_lake.transaction().read(given)
        with pytest.raises(TableNotFound, match=expected):
            shared_lake.snapshot().table(given)
