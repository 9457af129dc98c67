"""Decides by a file's statistics whether no row can match a condition, or whether all rows do.

In doubt a file is read. Bounds are outer bounds: no value is outside, but the bounds need not occur
(strings are truncated, timestamps rounded outward), so a value equal to a bound proves nothing.
"""

from __future__ import annotations

import base64
import decimal
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from lakeward.model.expressions.nodes import (
    BOOLEAN,
    And,
    Cast,
    Column,
    Compare,
    Comparison,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
)
from lakeward.model.types import Decimal, Field, Primitive, Type
from lakeward.model.values import MAX_KEY, MIN_KEY, Value, order_key

Range: TypeAlias = tuple[int | None, int | None]
"""A closed interval of order keys; None means unbounded."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Neutral outer bounds, null count and row count of a column in a file; None is unknown."""

    minimum: Value = None
    maximum: Value = None
    nulls: int | None = None
    rows: int | None = None


BoundsOf: TypeAlias = Callable[[int], Bounds | None]


def may_match(expression: Expression, bounds_of: BoundsOf) -> bool:
    """Whether a file with these bounds, by field id, may have a row where the condition is true."""
    match affirmed(expression):
        case And(terms):
            return all(may_match(term, bounds_of) for term in terms)
        case Or(terms):
            return any(may_match(term, bounds_of) for term in terms)
        case Literal(value, _):
            return value is True
        case Compare(op, left, Literal() as right):
            known = _known(left, bounds_of)
            return known is None or _may_compare(op, known, right)
        case In(operand, values):
            known = _known(operand, bounds_of)
            return known is None or any(_may_compare("=", known, value) for value in values)
        case Like(operand, pattern, ignore_case):
            known = _known(operand, bounds_of)
            return known is None or _may_be_like(known, "" if ignore_case else prefix(pattern))
        case IsNull(operand):
            known = _known(operand, bounds_of)
            return known is None or known.nulls != 0
        case Not(IsNull(operand) | In(operand, _) | Like(operand, _, _)):
            known = _known(operand, bounds_of)
            return known is None or not _all_null(known)
        case _:
            return True


def always_matches(expression: Expression, bounds_of: BoundsOf) -> bool:
    """Whether the condition is true for every row of a file with these bounds, by field id."""
    match affirmed(expression):
        case And(terms):
            return all(always_matches(term, bounds_of) for term in terms)
        case Or(terms):
            return any(always_matches(term, bounds_of) for term in terms)
        case Literal(value, _):
            return value is True
        case Compare(op, left, Literal() as right):
            known = _known(left, bounds_of)
            return known is not None and _surely_compares(op, known, right)
        case In(operand, values):
            known = _known(operand, bounds_of)
            return known is not None and any(_surely_compares("=", known, v) for v in values)
        case Not(In(operand, values)):
            known = _known(operand, bounds_of)
            return known is not None and all(_surely_compares("!=", known, v) for v in values)
        case IsNull(operand):
            known = _known(operand, bounds_of)
            return known is not None and _all_null(known)
        case Not(IsNull(operand)):
            known = _known(operand, bounds_of)
            return known is not None and known.nulls == 0
        case _:
            return False


def key_ranges(expression: Expression) -> dict[int, Range]:
    """Return, by indexed field, the range of order keys that a file with a matching row overlaps.

    Every such file has `min_key <= high` and `max_key >= low`. A range whose low is above its high
    means that no file has a matching row.
    """
    match affirmed(expression):
        case And(terms):
            return _intersection([key_ranges(term) for term in terms])
        case Or(terms):
            return _hull([key_ranges(term) for term in terms if may_match(term, _unknown)])
        case Compare(op, left, Literal(value, _)) if op != "!=":
            found = _indexed(left)
            if found is None or value is None or _is_nan(value):
                return {}
            return {found.id: _compared(op, found.type, value)}
        case In(operand, values):
            found = _indexed(operand)
            if found is None or any(_is_nan(v.value) for v in values):
                return {}
            keys = [order_key(found.type, v.value) for v in values]
            return {found.id: (min(keys), max(keys))}
        case Like(operand, pattern, False):
            found = _indexed(operand)
            start = prefix(pattern).encode()[:_KEY_BYTES]
            if found is None or not start:
                return {}
            return {found.id: (_string_key(start, b"\0"), _string_key(start, b"\xff"))}
        case _:
            return {}


def affirmed(expression: Expression) -> Expression:
    """Return an expression that is true for the same rows, with a leading NOT moved inward."""
    match expression:
        case Not(Not(operand)):
            return affirmed(operand)
        case Not(And(terms)):
            return Or(tuple(Not(term) for term in terms))
        case Not(Or(terms)):
            return And(tuple(Not(term) for term in terms))
        case Not(Compare(op, left, right)) if op in _OPPOSITE:
            return affirmed(Compare(_OPPOSITE[op], left, right))
        case Not(Literal(bool() as value, kind)):
            return Literal(not value, kind)
        case Not(Column() as column):
            return Compare("=", column, Literal(False, BOOLEAN))
        case Column():
            return Compare("=", expression, Literal(True, BOOLEAN))
        case Compare("<=>", left, Literal() as right):
            return Compare("=", left, right)
        case _:
            return expression


def prefix(pattern: str) -> str:
    """Return the common prefix of all strings that match a LIKE pattern."""
    out = []
    characters = iter(pattern)
    for character in characters:
        if character in "%_":
            break
        out.append(next(characters, "") if character == "\\" else character)
    return "".join(out)


_OPPOSITE: Final[dict[Comparison, Comparison]] = {
    "=": "!=",
    "!=": "=",
    "<": ">=",
    "<=": ">",
    ">": "<=",
    ">=": "<",
}
_KEY_BYTES: Final = 8
_EXACT: Final = frozenset({"int8", "int16", "int32", "int64", "date", "timestamp", "timestamp_ntz"})
"""Types whose order keys are the values themselves, so a strict bound excludes its own key."""
_WIDENED: Final[dict[str, frozenset[str]]] = {
    "float": frozenset({"double"}),
    "int8": frozenset({"int16", "int32", "int64"}),
    "int16": frozenset({"int32", "int64"}),
    "int32": frozenset({"int64"}),
}
"""Casts that change neither a value nor its neutral form."""


def _column(expression: Expression) -> Column | None:
    """Return the column that an expression is, or casts without changing values; else None."""
    match expression:
        case Column():
            return expression
        case Cast(Column(type=Primitive(name)) as column, Primitive(target)) if target in (
            _WIDENED.get(name, ())
        ):
            return column
        case _:
            return None


def _indexed(expression: Expression) -> Field | None:
    found = _column(expression)
    return found.field if found and not found.path and found.field.indexed else None


def _known(expression: Expression, bounds_of: BoundsOf) -> Bounds | None:
    found = _column(expression)
    bounds = bounds_of(found.leaf.id) if found else None
    if bounds is None or found is None:
        return None
    unordered = _is_nan(bounds.minimum) or _is_nan(bounds.maximum)
    # Writers disagree whether a member of a null struct is a null.
    nulls = None if found.path else bounds.nulls
    return Bounds(
        None if unordered else _ordered(found.type, bounds.minimum),
        None if unordered else _ordered(found.type, bounds.maximum),
        nulls,
        bounds.rows,
    )


def _ordered(kind: Type, value: Value) -> Any:
    """Return the value in a form that Python orders as SQL does."""
    if value is None:
        return None
    if isinstance(kind, Decimal):
        return decimal.Decimal(str(value))
    if kind == _BINARY:
        return base64.b64decode(str(value))
    return value


_BINARY: Final = Primitive("binary")


def _is_nan(value: Value) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _all_null(known: Bounds) -> bool:
    return known.nulls is not None and known.nulls == known.rows


def _may_compare(op: Comparison, known: Bounds, literal: Literal) -> bool:
    if literal.value is None or _all_null(known):
        return False
    if _is_nan(literal.value):
        return True
    value: Any = _ordered(literal.type, literal.value)
    low: Any = known.minimum
    high: Any = known.maximum
    match op:
        case "<":
            return low is None or low < value
        case "<=":
            return low is None or low <= value
        case ">":
            return high is None or high > value
        case ">=":
            return high is None or high >= value
        case "=":
            return (low is None or low <= value) and (high is None or high >= value)
        case _:
            return True


def _surely_compares(op: Comparison, known: Bounds, literal: Literal) -> bool:
    if literal.value is None or known.nulls != 0 or _is_nan(literal.value):
        return False
    value: Any = _ordered(literal.type, literal.value)
    low: Any = known.minimum
    high: Any = known.maximum
    # Some writers have bounds in spite of a NaN, which is above all numbers.
    capped = high is not None and not isinstance(high, float)
    match op:
        case "<":
            return capped and bool(high < value)
        case "<=":
            return capped and bool(high <= value)
        case ">":
            return low is not None and bool(low > value)
        case ">=":
            return low is not None and bool(low >= value)
        case "=":
            return capped and low is not None and bool(low == value == high)
        case "!=":
            return (low is not None and bool(low > value)) or (capped and bool(high < value))
        case _:
            return False


def _may_be_like(known: Bounds, start: str) -> bool:
    if _all_null(known):
        return False
    low, high = known.minimum, known.maximum
    above = high is None or str(high) >= start
    return above and (low is None or str(low)[: len(start)] <= start)


def _compared(op: Comparison, kind: Type, value: Value) -> Range:
    key = order_key(kind, value)
    step = 1 if isinstance(kind, Primitive) and kind.name in _EXACT else 0
    match op:
        case "=":
            return key, key
        case "<":
            return None, max(key - step, MIN_KEY)
        case "<=":
            return None, key
        case ">":
            return min(key + step, MAX_KEY), None
        case _:
            return key, None


def _string_key(start: bytes, fill: bytes) -> int:
    return int.from_bytes(start.ljust(_KEY_BYTES, fill), "big") + MIN_KEY


def _intersection(ranges: list[dict[int, Range]]) -> dict[int, Range]:
    out: dict[int, Range] = {}
    for found in ranges:
        for field, (low, high) in found.items():
            other_low, other_high = out.get(field, (None, None))
            lows = [key for key in (low, other_low) if key is not None]
            highs = [key for key in (high, other_high) if key is not None]
            out[field] = (max(lows, default=None), min(highs, default=None))
    return out


def _unknown(_: int) -> None:
    return None


def _hull(ranges: list[dict[int, Range]]) -> dict[int, Range]:
    if not ranges:
        return {}
    shared = set.intersection(*(set(found) for found in ranges))
    covers = {field: _cover([found[field] for found in ranges]) for field in shared}
    return {field: cover for field, cover in covers.items() if cover != (None, None)}


def _cover(ranges: list[Range]) -> Range:
    lows = [low for low, _ in ranges if low is not None]
    highs = [high for _, high in ranges if high is not None]
    return (
        min(lows) if len(lows) == len(ranges) else None,
        max(highs) if len(highs) == len(ranges) else None,
    )
