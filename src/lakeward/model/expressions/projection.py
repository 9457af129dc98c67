"""Projects a condition on a source column to one on a derived partition value.

A projection is inclusive: where the condition is true of a row, the projection is true of the row's
derived value. So a file whose derived values cannot satisfy the projection has no matching row. The
projection is None if the condition implies nothing for derived values. Conditions on the date or
year of a timestamp become ranges first, for which statistics and partitions exist:
`CAST(ts AS DATE) = '2026-01-01'` is a range of `ts`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from lakeward.model.bucket import scaled, unscaled
from lakeward.model.calendar import DAY, first_of_year
from lakeward.model.definition import Definition
from lakeward.model.derived import Derived
from lakeward.model.expressions.nodes import (
    And,
    Call,
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
from lakeward.model.expressions.prune import affirmed, prefix
from lakeward.model.transform import DATE, STRING, TIMES, Rules
from lakeward.model.types import Decimal, Field, Primitive
from lakeward.model.values import Value, single

_DISCRETE: Final = frozenset({"int8", "int16", "int32", "int64", "date"})
_DOUBLE: Final = Primitive("double")
_DIGITS: Final = ("0", ":")
"""Texts that begin with a digit are at least the first, and below the second."""


def implied(where: Expression, definition: Definition) -> Expression:
    """Return the condition and everything it implies for derived values, to prune files by.

    The result is true of the same rows, but some of its fields are hidden partition values.
    """
    where = by_ranges(where)
    projections = [_Projection.of(i, d, definition) for i, d in definition.derived.items()]
    found = _all(projection.of_condition(where) for projection in projections)
    return where if found is None else And((where, found))


def project(where: Expression, derived: Derived, source: Field, target: Field) -> Expression | None:
    """Return the strictest condition on `target`, derived from `source`, that `where` implies.

    None if `where` implies nothing for `target`.
    """
    return _Projection(derived, source, target).of_condition(where)


def by_ranges(expression: Expression) -> Expression:
    """Return the condition with comparisons of a column's date or year as ranges of the column."""
    match expression:
        case And(terms) | Or(terms):
            found = tuple(by_ranges(term) for term in terms)
            same = all(a is b for a, b in zip(found, terms, strict=True))
            return expression if same else replace(expression, terms=found)
        case Not(operand):
            inner = by_ranges(operand)
            return expression if inner is operand else Not(inner)
        case Compare(op, left, Literal(value)) if value is not None:
            return _range(op, left, value) or expression
        case In(operand, values):
            ranges = [_range("=", operand, v.value) for v in values]
            known = [r for r in ranges if r is not None]
            return Or(tuple(known)) if len(known) == len(values) else expression
        case _:
            return expression


@dataclass(frozen=True, slots=True)
class _Projection:
    derived: Derived
    source: Field
    target: Field

    @classmethod
    def of(cls, own_id: int, derived: Derived, definition: Definition) -> _Projection:
        return cls(derived, definition.schema.by_id[derived.source], definition.field(own_id))

    def of_condition(self, where: Expression) -> Expression | None:
        if self.derived.transform.name == "void":
            return None
        match affirmed(where):
            case And(terms):
                return _all(self.of_condition(term) for term in terms)
            case Or(terms):
                return _any([self.of_condition(term) for term in terms])
            case Literal(value) as literal:
                return None if value is True else literal
            case Compare(op, Column() as column, Literal(value)) if self._is_source(column):
                return None if value is None else self._or_foreign_text(self._compared(op, value))
            case In(Column() as column, values) if self._is_source(column):
                return self._or_foreign_text(self._among([v.value for v in values]))
            case Like(Column() as column, pattern, ignore_case) if self._is_source(column):
                return self._like("" if ignore_case else prefix(pattern))
            case IsNull(Column() as column) if self._is_source(column):
                return self._missing()
            case Not(
                IsNull(Column() as column) | In(Column() as column) | Like(Column() as column)
            ):
                return self._is_not_null() if self._is_source(column) else None
            case _:
                return None

    def _is_source(self, column: Column) -> bool:
        return column.field.id == self.source.id and not column.path

    def _compared(self, op: Comparison, value: Value) -> Expression:
        if op == "!=":
            return self._is_not_null()
        if op == "=":
            return self._among([value])
        if not self.derived.transform.is_ordered:
            return self._is_not_null()
        if self.derived.transform.name == "identity":
            return self._ordered(op, value)
        if op == "<" and self._is_short(value):
            # A truncated value is not above the original, and the bound itself is not truncated.
            return self._target("<", value)
        below = op in ("<", "<=")
        step = {"<": -1, ">": 1}.get(op, 0)
        return self._bound(value, step, below=below) or self._is_not_null()

    def _among(self, values: list[Value]) -> Expression:
        """Return the condition that the derived value is that of one of some values."""
        if self._slack():
            low, high = min(values, key=_number), max(values, key=_number)
            bounds = (self._bound(low, 0, below=False), self._bound(high, 0, below=True))
            return _all(bounds) or self._is_not_null()
        found: dict[Value, None] = {}
        for value in values:
            try:
                derived = self._derived(value)
            except (ArithmeticError, ValueError):
                return self._is_not_null()
            found.update(dict.fromkeys(self._as_written(derived)))
        literals = tuple(Literal(v, self.target.type) for v in found)
        if len(literals) > 1:
            return In(Column(self.target), literals)
        return Compare("=", Column(self.target), literals[0])

    def _ordered(self, op: Comparison, value: Value) -> Expression:
        """Return the condition that an identity partition value is below, or above, a value."""
        rounded = self._rounded(value)
        if rounded is None:
            return self._target(op, value)
        # Rounding keeps the order, but values that differ may become equal.
        exact = float(value or 0)
        if op in ("<", "<="):
            return self._target("<=", max(exact, rounded))
        return self._target(">=", min(exact, rounded))

    def _as_written(self, value: Value) -> list[Value]:
        """Return a derived value in all forms in which manifests may contain it."""
        rounded = self._rounded(value)
        return [value] if rounded is None or rounded == value else [value, rounded]

    def _rounded(self, value: Value) -> float | None:
        """Return the value rounded to four bytes, if manifests may contain it rounded; else None.

        pyiceberg rounds the doubles of identity partitions when it rewrites a manifest, as in
        deletes.
        """
        transform = self.derived.transform
        if transform.rules is not Rules.ICEBERG or transform.name != "identity":
            return None
        if self.source.type != _DOUBLE or not isinstance(value, float) or math.isnan(value):
            return None
        return single(value)

    def _bound(self, value: Value, step: int, *, below: bool) -> Expression | None:
        """Return `<=` (`below`) or `>=` of the derived value and that of `value` moved by `step`.

        None if the moved value has no derived value.
        """
        slack = self._slack()
        moved = self._moved(value, step + (slack if below else -slack))
        try:
            found = self._derived(moved)
        except (ArithmeticError, ValueError):
            return None
        return self._target("<=" if below else ">=", found)

    def _or_foreign_text(self, condition: Expression) -> Expression:
        """Return the condition, extended to match texts of times that Lakeward never writes.

        Spark writes years without four digits with a sign, which breaks the order; delta-rs writes
        the pattern of the format itself.
        """
        if self.derived.utc or self.derived.transform.name not in TIMES:
            return condition
        if self.target.type != STRING:
            return condition
        low, high = _DIGITS
        return Or((condition, self._target("<", low), self._target(">=", high)))

    def _like(self, start: str) -> Expression:
        transform = self.derived.transform
        if self.source.type != STRING or not transform.is_ordered or not start:
            return self._is_not_null()
        if transform.width is not None and len(start) >= transform.width:
            return self._target("=", start[: transform.width])
        quoted = "".join("\\" + c if c in "%_\\" else c for c in start)
        return Like(Column(self.target), f"{quoted}%")

    def _missing(self) -> Expression:
        found = self._derived(None)
        return IsNull(Column(self.target)) if found is None else self._target("=", found)

    def _is_not_null(self) -> Expression:
        return Not(IsNull(Column(self.target)))

    def _target(self, op: Comparison, value: Value) -> Expression:
        return Compare(op, Column(self.target), Literal(value, self.target.type))

    def _derived(self, value: Value) -> Value:
        return self.derived.transform.apply(self.source.type, value)

    def _moved(self, value: Value, steps: int) -> Value:
        """Return the value moved by a number of its type's smallest steps, if the type has any."""
        kind = self.source.type
        if not steps or value is None:
            return value
        if isinstance(kind, Decimal):
            return scaled(kind, unscaled(kind, value) + steps)
        name = kind.name if isinstance(kind, Primitive) else ""
        return int(value) + steps if name in _DISCRETE or name.startswith("timestamp") else value

    def _is_short(self, value: Value) -> bool:
        width = self.derived.transform.width
        return isinstance(value, str) and self.source.type == STRING and len(value) <= (width or 0)

    def _slack(self) -> int:
        """Return by how much a value may be off because it was computed in a zone other than UTC.

        No zone is more than a day off. Spark uses dates and timestamps without a zone as they are,
        except for texts, which it computes from a timestamp with a zone.
        """
        transform = self.derived.transform
        if self.derived.utc or transform.rules is Rules.ICEBERG or transform.name not in TIMES:
            return 0
        if self.source.type == DATE:
            return 1 if transform.name == "month" else 0
        zoned = not str(self.source.type).endswith("ntz")
        return DAY if zoned or transform.name in ("month", "hour") else 0


def _all(terms: Iterable[Expression | None]) -> Expression | None:
    found = [term for term in terms if term is not None]
    if len(found) > 1:
        return And(tuple(found))
    return found[0] if found else None


def _any(terms: list[Expression | None]) -> Expression | None:
    found = [term for term in terms if term is not None]
    return Or(tuple(found)) if len(found) == len(terms) else None


def _number(value: Value) -> int:
    return int(value or 0)


def _range(op: Comparison, operand: Expression, value: Value) -> Expression | None:
    match operand:
        case Cast(Column() as column, kind) if kind == DATE and _is_moment(column):
            first, after = _start(column, int(value or 0)), _start(column, int(value or 0) + 1)
        case Call("year", (Column() as column,)) if _is_moment(column) or column.type == DATE:
            year = int(value or 0)
            first = _start(column, first_of_year(year))
            after = _start(column, first_of_year(year + 1))
        case _:
            return None
    match op:
        case "=":
            return And((Compare(">=", column, first), Compare("<", column, after)))
        case "!=":
            return Or((Compare("<", column, first), Compare(">=", column, after)))
        case "<":
            return Compare("<", column, first)
        case "<=":
            return Compare("<", column, after)
        case ">":
            return Compare(">=", column, after)
        case ">=":
            return Compare(">=", column, first)
        case _:
            return None


def _is_moment(column: Column) -> bool:
    return isinstance(column.type, Primitive) and column.type.name.startswith("timestamp")


def _start(column: Column, day: int) -> Literal:
    return Literal(day if column.type == DATE else day * DAY, column.type)
