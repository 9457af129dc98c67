"""Defaults of columns in a Delta table: `CURRENT_DEFAULT` in a field's metadata.

Delta has the feature `allowColumnDefaults` for them. The default is written if data lacks the
column; rows that existed before stay null. The embedded engine writes defaults that are literals;
any other expression, such as `current_timestamp()`, only Spark can compute.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from lakeward.errors import InvalidInput
from lakeward.model.schema import Schema
from lakeward.model.types import Decimal, Field, Primitive

CURRENT: Final = "CURRENT_DEFAULT"
FEATURE: Final = "allowColumnDefaults"


def with_defaults(schema: Schema) -> Schema:
    """Return the schema with each default in its field's metadata, where Spark reads it."""
    fields = tuple(_with_default(field) for field in schema.fields)
    return schema if fields == schema.fields else Schema(fields, schema.last_id)


def has_defaults(schema: Schema) -> bool:
    """Return whether a column has a default in its metadata, where other engines read it."""
    return any(CURRENT in field.metadata for field in schema.fields)


def default_of(field: Field) -> Any:
    """Return the value of a field's `CURRENT_DEFAULT`; None if it is null or not a literal."""
    if not isinstance(field.type, Primitive | Decimal):
        return None
    # Few tables have defaults, and parsing an expression loads the parser.
    from lakeward.model.evolution.columns import literal

    try:
        return literal(str(field.metadata[CURRENT]), field, field.name)
    except InvalidInput:
        return None


def computed_defaults(schema: Schema) -> list[tuple[str, str]]:
    """Return the name and expression of each column whose default only Spark can compute."""
    return [
        (field.name, str(field.metadata[CURRENT]))
        for field in schema.fields
        if CURRENT in field.metadata and field.default is None and not _is_null(field)
    ]


def _with_default(field: Field) -> Field:
    text = field.metadata.get(CURRENT)
    if field.default is None:
        if text is None or _is_null(field) or default_of(field) is None:
            return field
        return replace(field, metadata={k: v for k, v in field.metadata.items() if k != CURRENT})
    if text is not None and default_of(field) == field.default:
        return field
    from lakeward.model.expressions.nodes import Literal
    from lakeward.model.expressions.render import render

    shown = render(Literal(field.default, field.type))
    return replace(field, metadata={**field.metadata, CURRENT: shown})


def _is_null(field: Field) -> bool:
    return str(field.metadata[CURRENT]).strip().upper() == "NULL"
