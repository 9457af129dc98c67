"""A value for a column: only what the column's type holds without loss.

Types that hold all values of another take them. Whole numbers and decimals of a wider type are
taken too, and one that does not fit is found when it is computed. Everything else must be cast by
whoever writes it.
"""

from __future__ import annotations

from typing import Final

from lakeward.errors import InvalidExpression
from lakeward.model.expressions import coercion, functions
from lakeward.model.expressions.coercion import FLOAT, INTEGERS, VOID, is_integer, is_temporal
from lakeward.model.expressions.literals import DOUBLE, STRING
from lakeward.model.expressions.nodes import Cast, Expression, Literal
from lakeward.model.types import Decimal, Field, Type

_EXACT: Final[dict[Type, int]] = {FLOAT: 16, DOUBLE: 32}
"""The widest whole numbers of which a floating type has all."""


def assign(value: Expression, field: Field) -> Expression:
    """The value as the column's type.

    Raises:
        InvalidExpression: Values of its type do not fit there.
    """
    kind = field.type
    if value.type == kind:
        return value
    if value.type == VOID:
        return Literal(None, kind)
    found = _literal(value, kind) if isinstance(value, Literal) else _converted(value, kind)
    if found is None:
        shown = f" {value.value!r}" if isinstance(value, Literal) else ""
        what = f"Column {field.name} is {kind}, and the value{shown} is {value.type}."
        hint = f"CAST it AS {_spelled(kind)}."
        raise InvalidExpression(what, hint=hint, column=field.name)
    return found


def _literal(value: Literal, kind: Type) -> Expression | None:
    if value.type == STRING:
        return functions.cast_to(value, kind) if is_temporal(kind) else None
    return coercion.fit(value, kind)


def _converted(value: Expression, kind: Type) -> Expression | None:
    source = value.type
    if is_integer(source):
        if is_integer(kind):
            return Cast(value, kind)
        if isinstance(kind, Decimal):
            return Cast(coercion.convert(value, coercion.as_decimal(source)), kind)
        return Cast(value, kind) if INTEGERS[str(source)] <= _EXACT.get(kind, 0) else None
    if isinstance(source, Decimal) and isinstance(kind, Decimal):
        return Cast(value, kind) if source.scale <= kind.scale else None
    if source == FLOAT and kind == DOUBLE:
        return Cast(value, kind)
    return Cast(value, kind) if _same_moments(source, kind) else None


def _same_moments(source: Type, kind: Type) -> bool:
    """Timestamps of another step; a moment between two steps is found when it is computed."""
    names = str(source), str(kind)
    zoned = {name.endswith("ntz") for name in names}
    return all(name.startswith("timestamp") for name in names) and len(zoned) == 1


def _spelled(kind: Type) -> str:
    return {"int8": "TINYINT", "int16": "SMALLINT", "int32": "INT", "int64": "BIGINT"}.get(
        str(kind), str(kind).upper()
    )
