"""Translates conditions of a query to Lakeward conditions, if all engines evaluate them alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from lakeward.errors import InvalidExpression
from lakeward.model.expressions.nodes import Expression
from lakeward.model.expressions.where import bind
from lakeward.model.schema import Schema
from lakeward.model.types import Decimal, Primitive

if TYPE_CHECKING:
    from sqlglot import exp

COMPARISONS: Final = ("eq", "neq", "lt", "lte", "gt", "gte")
_EXACT_DIGITS: Final = 15
"""Decimals of at most so many digits compare alike as decimals and as doubles."""
_INTEGERS: Final = ("int8", "int16", "int32", "int64")
_TIMESTAMPS: Final = ("DATE", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPNTZ", "TIMESTAMPLTZ")


def bound(term: exp.Expr, schema: Schema) -> Expression | None:
    """Return a term as a Lakeward condition; None if they may differ in meaning."""
    from sqlglot import exp

    copy = exp.Paren(this=term.copy())
    for column in list(copy.find_all(exp.Column)):
        name = spelled(column.name, schema)
        if name is None:
            return None
        column.replace(exp.column(exp.to_identifier(name, quoted=True)))
    if not _is_known(copy.this, schema):
        return None
    try:
        return bind(copy.this, schema)
    except InvalidExpression:
        return None


def spelled(name: str, schema: Schema) -> str | None:
    """Return a column's exact name in the schema; None if there is none, or several."""
    if name in schema.by_name:
        return name
    found = [n for n in schema.names if n.lower() == name.lower()]
    return found[0] if len(found) == 1 else None


def _is_known(node: exp.Expr, schema: Schema) -> bool:
    """Return whether all engines and Lakeward evaluate a condition alike."""
    from sqlglot import exp

    match node.key:
        case "paren" | "not":
            return _is_known(node.this, schema)
        case "and" | "or":
            return _is_known(node.this, schema) and _is_known(node.expression, schema)
        case "is":
            return isinstance(node.this, exp.Column) and isinstance(node.expression, exp.Null)
        case "between":
            values = [node.args["low"], node.args["high"]]
            return node.args.get("symmetric") is None and _fit(node.this, values, schema)
        case "in":
            values = node.args.get("expressions") or []
            return bool(values) and _fit(node.this, values, schema)
        case key if key in COMPARISONS:
            left, right = node.this, node.expression
            return _fit(left, [right], schema) or _fit(right, [left], schema)
        case _:
            return False


def _fit(column: exp.Expr, values: Sequence[exp.Expr], schema: Schema) -> bool:
    """Return whether values compare with a column in the same way in all engines."""
    from sqlglot import exp

    if not isinstance(column, exp.Column):
        return False
    kind = schema.by_name[column.name].type
    return all(_is_alike(value, kind) for value in values)


def _is_alike(value: exp.Expr, kind: Any) -> bool:
    from sqlglot import exp

    cast = None
    if isinstance(value, exp.Cast):
        if value.to.expressions:  # a precision, by which values are rounded
            return False
        cast, value = value.to.this.value.upper(), value.this
    value = value.this if isinstance(value, exp.Neg) else value
    value = value.this if isinstance(value, exp.Paren) else value
    value = value.this if isinstance(value, exp.Neg) else value
    if isinstance(value, exp.Boolean):
        return cast is None and kind == Primitive("boolean")
    if not isinstance(value, exp.Literal):
        return False
    if value.is_string:
        name = kind.name if isinstance(kind, Primitive) else ""
        if name == "string":
            return cast is None
        if name == "date":
            return cast in (None, "DATE")
        if name in ("timestamp", "timestamp_ntz"):
            return cast is None or cast in _TIMESTAMPS
        return False
    if cast is not None:
        return False
    text = str(value.this).lower()
    if isinstance(kind, Decimal):
        return text.isdecimal() or (kind.precision <= _EXACT_DIGITS and "e" not in text)
    if not isinstance(kind, Primitive):
        return False
    return kind.name == "double" or (kind.name in _INTEGERS and text.isdecimal())
