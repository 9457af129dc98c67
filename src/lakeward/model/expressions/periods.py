"""Conditions on the date or the year of a moment, said as ranges of the moment itself.

`CAST(ts AS DATE) = '2026-01-01'` is how people ask for a day, and statistics and partitions know
`ts`. Both forms are true, false and unknown for the same rows.
"""

from __future__ import annotations

from dataclasses import replace

from lakeward.model.civil import DAY, first_of_year
from lakeward.model.expressions.literals import DATE
from lakeward.model.expressions.nodes import (
    And,
    Call,
    Cast,
    Column,
    Compare,
    Comparison,
    Expression,
    In,
    Literal,
    Not,
    Or,
)
from lakeward.model.types import Primitive
from lakeward.model.values import Value


def by_ranges(expression: Expression) -> Expression:
    """The condition with dates and years of columns as ranges of the columns."""
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
