from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeward.model.expressions import where
from lakeward.model.expressions.nodes import Cast, Column, Compare, Literal, Not
from lakeward.model.expressions.prune import Bounds, always_matches, key_ranges, may_match
from lakeward.model.schema import Schema
from lakeward.model.types import Decimal, Field, Primitive, Type
from lakeward.model.values import MAX_KEY, MIN_KEY, order_key, to_neutral
from tests.support.expressions import SCHEMA, Row, Texts, evaluate, tables

IDS = {field.name: field.id for field in SCHEMA.fields}


def bounds(**known: Bounds) -> Any:
    return {IDS[name]: value for name, value in known.items()}.get


def may(text: str, **known: Bounds) -> bool:
    return may_match(where.parse(text, SCHEMA), bounds(**known))


def always(text: str, **known: Bounds) -> bool:
    return always_matches(where.parse(text, SCHEMA), bounds(**known))


def keys(text: str) -> dict[str, tuple[int | None, int | None]]:
    found = key_ranges(where.parse(text, SCHEMA))
    names = {id_: name for name, id_ in IDS.items()}
    return {names[id_]: value for id_, value in found.items()}


TEN_TO_TWENTY = Bounds(10, 20, 0, 5)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i = 9", False),
        ("i = 10", True),
        ("i = 20", True),
        ("i = 21", False),
        ("i < 10", False),
        ("i < 11", True),
        ("i <= 9.9", False),
        ("i <= 10", True),
        ("i > 20", False),
        ("i > 19.5", True),
        ("i >= 21", False),
        ("i >= 20", True),
        ("9 > i", False),
        ("20 <= i", True),
        ("i != 15", True),
        ("i IN (1, 2, 30)", False),
        ("i IN (1, 15)", True),
        ("i NOT IN (15)", True),
        ("i BETWEEN 1 AND 9", False),
        ("i BETWEEN 1 AND 10", True),
        ("i NOT BETWEEN 10 AND 20", False),
        ("i NOT BETWEEN 11 AND 20", True),
        ("NOT i >= 10", False),
        ("NOT (i < 10 OR i > 5)", False),
        ("NOT (i < 10 AND i > 50)", True),
        ("i = 1 OR i = 2", False),
        ("i = 1 OR n = 2", True),
        ("i = 1 AND n = 2", False),
        ("i IS NULL", False),
        ("i IS NOT NULL", True),
        ("i <=> NULL", False),
        ("i <=> 9", False),
        ("NOT (i <=> 9)", True),
        ("i = NULL", False),
        ("i + 1 = 5", True),
        ("FALSE", False),
        ("NULL", False),
        ("TRUE", True),
        ("NOT FALSE", True),
        ("CAST(i AS DOUBLE) > 30", True),
    ],
)
def test_may_match_by_bounds(text: str, expected: bool) -> None:
    assert may(text, i=TEN_TO_TWENTY) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i > 9", True),
        ("i > 10", False),
        ("i >= 10", True),
        ("i < 21", True),
        ("i < 20", False),
        ("i <= 20", True),
        ("i != 9", True),
        ("i != 21", True),
        ("i != 10", False),
        ("i = 10", False),
        ("i IN (10, 20)", False),
        ("i NOT IN (9, 21)", True),
        ("i NOT IN (9, 15)", False),
        ("i IS NOT NULL", True),
        ("i IS NULL", False),
        ("i > 0 AND i < 100", True),
        ("i > 0 AND n < 100", False),
        ("i > 0 OR n < 100", True),
        ("NOT i < 10", True),
        ("NOT (i < 10 OR i > 20)", True),
        ("NOT (i <=> 9)", False),
        ("TRUE", True),
        ("NOT FALSE", True),
        ("NULL", False),
        ("i + 0 > 0", False),
    ],
)
def test_always_matches_by_bounds(text: str, expected: bool) -> None:
    assert always(text, i=TEN_TO_TWENTY) is expected


def test_all_rows_equal_only_when_both_bounds_say_so() -> None:
    one = Bounds(7, 7, 0, 3)
    assert always("i = 7", i=one)
    assert always("i IN (1, 7)", i=one)
    assert always("i <=> 7", i=one)
    assert may(
        "i != 7", i=one
    )  # bounds may be wider than the values, but not here: reading is safe


def test_nothing_is_certain_with_nulls_or_unknown_counts() -> None:
    assert not always("i > 0", i=Bounds(10, 20, 1, 5))
    assert not always("i > 0", i=Bounds(10, 20, None, 5))
    assert not always("i IS NOT NULL", i=Bounds(10, 20, None, 5))
    assert not always("i > 0")
    assert not always("i IS NULL", i=Bounds(None, None, 5, None))
    assert always("i IS NULL", i=Bounds(None, None, 5, 5))


def test_a_file_of_nulls_matches_no_comparison() -> None:
    nulls = Bounds(None, None, 5, 5)
    for text in ("i = 1", "i != 1", "i NOT IN (1)", "NOT i = 1", "i IS NOT NULL", "i <=> 1"):
        assert not may(text, i=nulls), text
    assert not may("s LIKE 'a%'", s=nulls)
    assert not may("s NOT LIKE 'a%'", s=nulls)
    assert not may("b", b=nulls)
    assert not may("NOT b", b=nulls)
    assert may("i IS NULL", i=nulls)


def test_unknown_bounds_never_prune() -> None:
    unknown = Bounds(None, None, None, None)
    for text in ("i = 1", "i < 1", "i > 1", "i IS NULL", "i IS NOT NULL", "i IN (1)"):
        assert may(text), text
        assert may(text, i=unknown), text
    assert may("i < 10", i=Bounds(None, 20, 0, 5))
    assert may("i > 20", i=Bounds(10, None, 0, 5))


def test_boolean_columns_stand_for_themselves() -> None:
    assert not may("b", b=Bounds(False, False, 0, 2))
    assert may("b", b=Bounds(False, True, 0, 2))
    assert not may("NOT b", b=Bounds(True, True, 0, 2))
    assert always("b", b=Bounds(True, True, 0, 2))
    assert always("NOT b", b=Bounds(False, False, 0, 2))
    assert not always("b", b=Bounds(True, True, 1, 2))
    assert not may("b IS TRUE", b=Bounds(False, False, 0, 2))


def test_like_uses_what_stands_before_the_first_wildcard() -> None:
    names = Bounds("bar", "foo", 0, 9)
    assert not may("s LIKE 'a%'", s=names)
    assert may("s LIKE 'ba%'", s=names)
    assert not may("s LIKE 'ba'", s=names)
    assert may("s LIKE 'c_%'", s=names)
    assert not may("s LIKE 'g%'", s=names)
    assert may("s ILIKE 'G%'", s=names)
    assert may("s LIKE '%z'", s=names)
    assert not may(r"s LIKE '\\_%'", s=names)
    assert may("s NOT LIKE 'c%'", s=names)
    assert not may("startswith(s, 'z')", s=names)


def test_decimals_compare_as_numbers() -> None:
    prices = Bounds("9.50", "10.25", 0, 4)
    assert not may("d < 9.5", d=prices)
    assert may("d <= 9.5", d=prices)
    assert may("d > 10", d=prices)
    assert not may("d > 10.25", d=prices)
    assert always("d > 9", d=prices)
    assert always("d < 10.3", d=prices)


def test_bytes_compare_as_bytes() -> None:
    raw = Bounds(to_neutral(Primitive("binary"), b"\x00"), to_neutral(Primitive("binary"), b"\x0f"))
    assert not may("x > X'10'", x=raw)
    assert may("x > X'0e'", x=raw)


def test_nan_is_never_reasoned_away() -> None:
    low = Bounds(1.0, 2.0, 0, 3)
    assert not always("f < 10", f=low)  # a writer may have left a NaN out of the bounds
    assert not always("f = 1", f=Bounds(1.0, 1.0, 0, 3))
    assert always("f > 0", f=low)
    assert may("f > 10", f=Bounds(1.0, math.nan, 0, 3))
    assert may("f < 0", f=Bounds(math.nan, math.nan, 0, 3))
    assert may("isnan(f)", f=low)
    assert not may("f > 10", f=low)


def test_casts_that_change_nothing_are_seen_through() -> None:
    assert not may("g > 0.1", g=Bounds(0.0, 0.05, 0, 3))
    assert not may("CAST(n AS BIGINT) > 5", n=Bounds(0, 5, 0, 3))
    assert keys("CAST(n AS BIGINT) > 5") == {"n": (6, None)}
    assert keys("CAST(n AS DOUBLE) > 5") == {}


def test_members_of_structs_use_their_own_bounds_but_not_their_null_counts() -> None:
    member = next(f for f in SCHEMA.walk() if f.name == "c")
    known = {member.id: Bounds(1, 5, 0, 3)}.get
    assert not may_match(where.parse("st.c > 5", SCHEMA), known)
    assert may_match(where.parse("st.c IS NULL", SCHEMA), known)
    assert not always_matches(where.parse("st.c > 0", SCHEMA), known)
    assert not always_matches(where.parse("st.c IS NOT NULL", SCHEMA), known)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i = 5", {"i": (5, 5)}),
        ("i > 5", {"i": (6, None)}),
        ("i >= 5", {"i": (5, None)}),
        ("i < 5", {"i": (None, 4)}),
        ("5 >= i", {"i": (None, 5)}),
        ("i != 5", {}),
        ("i IN (9, 3, 5)", {"i": (3, 9)}),
        ("i NOT IN (9, 3)", {}),
        ("i > 2 AND i <= 8", {"i": (3, 8)}),
        ("i > 8 AND i < 2", {"i": (9, 1)}),
        ("i > 2 AND i > 5 AND i < 9 AND i < 20", {"i": (6, 8)}),
        ("i > 2 AND n = 1 AND s IS NULL", {"i": (3, None), "n": (1, 1)}),
        ("i = 1 OR i BETWEEN 5 AND 9", {"i": (1, 9)}),
        ("i = 1 OR n = 1", {}),
        ("i > 1 OR i < 0", {}),
        ("i IN (1, NULL)", {"i": (1, 1)}),
        ("NOT (i < 3 OR i > 4)", {"i": (3, 4)}),
        ("b", {"b": (1, 1)}),
        ("NOT b", {"b": (0, 0)}),
        ("i = n", {}),
        ("i + 1 = 5", {}),
        ("st.c = 1", {}),
        ("x = X'00'", {}),
        ("TRUE", {}),
        ("NULL", {}),
        ("d > 1.5", {"d": (150, None)}),
        ("dt < DATE '1970-01-03'", {"dt": (None, 1)}),
        ("ts > '1970-01-01 00:00:00.000005'", {"ts": (6, None)}),
        (f"i > {2**63 - 1}", {"i": (MAX_KEY, None)}),
        (f"i < {-(2**63)}", {"i": (None, MIN_KEY)}),
        ("isnan(f)", {}),
        ("f > CAST('NaN' AS DOUBLE)", {}),
    ],
)
def test_key_ranges(text: str, expected: dict[str, Any]) -> None:
    assert keys(text) == expected


def test_key_ranges_of_strings_use_their_first_bytes() -> None:
    string = Primitive("string")
    low, high = keys("s LIKE 'ab%'")["s"]
    assert low == order_key(string, "ab")
    assert high is not None
    assert high >= order_key(string, "ab\U0010ffff\U0010ffff")
    assert high < order_key(string, "ac")
    same = order_key(string, "a long string")
    assert keys("s = 'a long string'") == {"s": (same, same)}
    assert keys("s > 'a long string'") == {"s": (same, None)}
    assert keys("s LIKE '%a'") == {}
    assert keys("s ILIKE 'a%'") == {}
    assert keys("s NOT LIKE 'a%'") == {}


def test_only_indexed_fields_have_key_ranges() -> None:
    schema = Schema.from_arrow(pa.schema([("a", pa.int64()), ("z", pa.int64())]), indexed=1)
    assert set(key_ranges(where.parse("a = 1 AND z = 2", schema))) == {1}
    outer = replace(SCHEMA.field("st"), indexed=True)
    member = Column(outer, ("c",))
    assert key_ranges(Compare("=", member, Literal(1, member.type))) == {}


def test_a_comparison_built_the_other_way_round_is_left_to_reading() -> None:
    column = Column(SCHEMA.field("i"))
    reverse = Compare("<", Literal(5, column.type), column)
    assert may_match(reverse, bounds(i=Bounds(1, 2, 0, 3)))
    assert not always_matches(reverse, bounds(i=Bounds(7, 8, 0, 3)))
    assert may_match(Not(Cast(column, Primitive("boolean"))), bounds(i=TEN_TO_TWENTY))


@pytest.mark.slow
@settings(deadline=None, max_examples=400)
@given(Texts().conditions(), tables, st.data())
def test_a_file_with_a_matching_row_is_never_skipped(
    text: str, rows: list[Row], data: st.DataObject
) -> None:
    expression = where.parse(text, SCHEMA)
    known = data.draw(file_bounds(rows))
    results = [evaluate(expression, row) for row in rows]
    if any(results):
        assert may_match(expression, known.get)
        for id_, (low, high) in key_ranges(expression).items():
            found = known.get(id_, Bounds())
            if found.minimum is None or found.maximum is None:
                continue
            kind = SCHEMA.by_id[id_].type
            assert low is None or order_key(kind, found.maximum) >= low
            assert high is None or order_key(kind, found.minimum) <= high
    if always_matches(expression, known.get):
        assert all(result is True for result in results)


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(Texts().conditions(), tables)
def test_exact_bounds_decide_single_rows_often_enough(text: str, rows: list[Row]) -> None:
    """Pruning that never prunes would be sound too; simple comparisons must be decided."""
    expression = where.parse(text, SCHEMA)
    if not _is_simple(expression):
        return
    row = rows[0]
    known = _exact_bounds([row])
    if expression.left.field.id not in known:  # type: ignore[union-attr]
        return
    assert may_match(expression, known.get) is (evaluate(expression, row) is True)


def _is_simple(expression: Any) -> bool:
    return (
        isinstance(expression, Compare)
        and expression.op != "!="
        and isinstance(expression.left, Column)
        and not expression.left.path
        and isinstance(expression.right, Literal)
        and not (isinstance(expression.right.value, float) and math.isnan(expression.right.value))
    )


@st.composite
def file_bounds(draw: st.DrawFn, rows: list[Row]) -> dict[int, Bounds]:
    """Bounds as writers publish them: outer ones, some of them missing."""
    out = {}
    for id_, exact in _exact_bounds(rows).items():
        kind = SCHEMA.by_id[id_].type
        shape = draw(st.sampled_from(["exact", "exact", "wide", "half", "counts", "none"]))
        if shape == "none":
            continue
        low, high = exact.minimum, exact.maximum
        if shape == "wide":
            low, high = _widened(kind, low, high)
        elif shape == "half":
            low = None
        elif shape == "counts":
            low = high = None
        nulls = draw(st.sampled_from([exact.nulls, exact.nulls, None]))
        out[id_] = Bounds(low, high, nulls, draw(st.sampled_from([exact.rows, None])))
    return out


def _exact_bounds(rows: list[Row]) -> dict[int, Bounds]:
    out = {}
    for field in SCHEMA.fields:
        values = [row[field.name] for row in rows]
        out[field.id] = _of(field, values)
        if field.name == "st":
            for member in field.type.fields:  # type: ignore[union-attr]
                inner = [None if v is None else v[member.name] for v in values]
                out[member.id] = _of(member, inner)
    return out


def _of(field: Field, values: list[Any]) -> Bounds:
    present = [v for v in values if v is not None]
    nulls = len(values) - len(present)
    unordered = isinstance(present[0], dict) if present else True
    if unordered or any(isinstance(v, float) and math.isnan(v) for v in present):
        return Bounds(None, None, nulls, len(values))
    low, high = (to_neutral(field.type, pick(present)) for pick in (min, max))
    return Bounds(low, high, nulls, len(values))


def _widened(kind: Type, low: Any, high: Any) -> tuple[Any, Any]:
    if low is None:
        return low, high
    if isinstance(kind, Decimal) or not isinstance(kind, Primitive):
        return low, high
    if kind.name == "string":
        return low[:1], high[:1] + "\U0010ffff" if len(high) > 1 else high
    if kind.name.startswith("timestamp"):
        return low // 1000 * 1000, -(-high // 1000) * 1000
    if kind.name.startswith("int"):
        return max(low - 1, -(2**63)), min(high + 1, 2**63 - 1)
    return low, high
