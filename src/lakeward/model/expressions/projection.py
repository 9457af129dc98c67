"""What a condition on a column implies for the values that are derived from it.

A projection is inclusive: wherever the condition is true of a row, the projection is true of the
row's derived value. So a file whose derived values cannot satisfy the projection has no matching
row, whether or not it has statistics of the column itself. Where nothing can be concluded there is
no projection, which is None.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lakeward.model.bucket import scaled, unscaled
from lakeward.model.civil import DAY
from lakeward.model.definition import Definition
from lakeward.model.derived import Derived
from lakeward.model.expressions.nodes import (
    And,
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
from lakeward.model.expressions.periods import by_ranges
from lakeward.model.expressions.prune import affirmed, prefix
from lakeward.model.transform import DATE, STRING, TIMES, Rules
from lakeward.model.types import Decimal, Field, Primitive
from lakeward.model.values import Value

_DISCRETE: Final = frozenset({"int8", "int16", "int32", "int64", "date"})
_DIGITS: Final = ("0", ":")
"""Texts of years of four digits lie between these two."""


def implied(where: Expression, definition: Definition) -> Expression:
    """The condition together with all that it implies for derived values, to prune files by.

    It is true of the same rows as the condition, but some of what it speaks of are no columns.
    """
    where = by_ranges(where)
    projections = [_Projection.of(i, d, definition) for i, d in definition.derived.items()]
    found = _all(projection.of_condition(where) for projection in projections)
    return where if found is None else And((where, found))


def project(where: Expression, derived: Derived, source: Field, target: Field) -> Expression | None:
    """The strictest condition on a derived value that follows from a condition, or None.

    Args:
        where: A condition, bound to the schema.
        derived: How the value follows from a column.
        source: The column.
        target: The field of the derived value.
    """
    return _Projection(derived, source, target).of_condition(where)


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
                return None if value is None else self._or_strange(self._compared(op, value))
            case In(Column() as column, values) if self._is_source(column):
                return self._or_strange(self._among([v.value for v in values]))
            case Like(Column() as column, pattern, ignore_case) if self._is_source(column):
                return self._like("" if ignore_case else prefix(pattern))
            case IsNull(Column() as column) if self._is_source(column):
                return self._missing()
            case Not(
                IsNull(Column() as column) | In(Column() as column) | Like(Column() as column)
            ):
                return self._there() if self._is_source(column) else None
            case _:
                return None

    def _is_source(self, column: Column) -> bool:
        return column.field.id == self.source.id and not column.path

    def _compared(self, op: Comparison, value: Value) -> Expression:
        if op == "!=":
            return self._there()
        if op == "=":
            return self._among([value])
        if not self.derived.transform.is_ordered:
            return self._there()
        if self.derived.transform.name == "identity":
            return self._target(op, value)
        if op == "<" and self._is_short(value):
            # What is cut is not above what it was cut from, and the bound itself loses nothing.
            return self._target("<", value)
        below = op in ("<", "<=")
        step = {"<": -1, ">": 1}.get(op, 0)
        return self._bound(value, step, below=below) or self._there()

    def _among(self, values: list[Value]) -> Expression:
        """The derived value of one of some values."""
        if self._slack():
            low, high = min(values, key=_number), max(values, key=_number)
            bounds = (self._bound(low, 0, below=False), self._bound(high, 0, below=True))
            return _all(bounds) or self._there()
        found: dict[Value, None] = {}
        for value in values:
            try:
                found[self._derived(value)] = None
            except (ArithmeticError, ValueError):
                return self._there()
        literals = tuple(Literal(v, self.target.type) for v in found)
        if len(literals) > 1:
            return In(Column(self.target), literals)
        return Compare("=", Column(self.target), literals[0])

    def _bound(self, value: Value, step: int, *, below: bool) -> Expression | None:
        """Not above, or not below, the derived value of the value that is a step away."""
        slack = self._slack()
        moved = self._moved(value, step + (slack if below else -slack))
        try:
            found = self._derived(moved)
        except (ArithmeticError, ValueError):
            return None
        return self._target("<=" if below else ">=", found)

    def _or_strange(self, condition: Expression) -> Expression:
        """The condition, or a text of a time as we would never write it.

        Spark spells years that have not four digits with a sign, and so out of order; delta-rs
        reads the pattern of a date differently and writes the pattern itself.
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
            return self._there()
        if transform.width is not None and len(start) >= transform.width:
            return self._target("=", start[: transform.width])
        quoted = "".join("\\" + c if c in "%_\\" else c for c in start)
        return Like(Column(self.target), f"{quoted}%")

    def _missing(self) -> Expression:
        found = self._derived(None)
        return IsNull(Column(self.target)) if found is None else self._target("=", found)

    def _there(self) -> Expression:
        return Not(IsNull(Column(self.target)))

    def _target(self, op: Comparison, value: Value) -> Expression:
        return Compare(op, Column(self.target), Literal(value, self.target.type))

    def _derived(self, value: Value) -> Value:
        return self.derived.transform.apply(self.source.type, value)

    def _moved(self, value: Value, steps: int) -> Value:
        """The value some of its smallest steps away, where it has such; else the value itself."""
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
        """How far off a value may be because it was found in some zone other than UTC.

        No zone is a day away from UTC, and none ever skipped more than a day. Spark looks at a
        date or at a moment without a zone as it is, but for the texts, which it makes by way of a
        moment with one.
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
