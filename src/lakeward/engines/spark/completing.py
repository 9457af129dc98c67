"""Fills struct members that a frame lacks with nulls; Spark fills only whole columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakeward.engines.spark.extra import pyspark
from lakeward.model.described import sql_type
from lakeward.model.quoting import identifier, literal
from lakeward.model.schema import Schema
from lakeward.model.types import ListOf, MapOf, Struct, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def completed(frame: DataFrame, schema: Schema) -> DataFrame:
    """Return a frame whose structs have all nullable members of the table's structs."""
    chosen, changed = [], False
    for given in frame.schema.fields:
        own = identifier(given.name)
        field = schema.by_name.get(given.name)
        text = None if field is None else _filled(own, field.type, given.dataType, 0)
        changed = changed or text is not None
        chosen.append(own if text is None else f"{text} AS {own}")
    return frame.selectExpr(*chosen) if changed else frame


def _filled(value: str, kind: Type, given: Any, depth: int) -> str | None:
    """Return an expression for a value with all members; None if it has them already."""
    types, name = pyspark("sql.types"), f"v{depth}"
    match kind:
        case Struct() if isinstance(given, types.StructType):
            return _struct(value, kind, given, depth)
        case ListOf(element) if isinstance(given, types.ArrayType):
            inside = _filled(name, element.type, given.elementType, depth + 1)
            return None if inside is None else f"transform({value}, {name} -> {inside})"
        case MapOf(_, part) if isinstance(given, types.MapType):
            inside = _filled(name, part.type, given.valueType, depth + 1)
            key = f"k{depth}"
            return inside and f"transform_values({value}, ({key}, {name}) -> {inside})"
        case _:
            return None


def _struct(value: str, kind: Struct, given: Any, depth: int) -> str | None:
    known = {f.name: f.dataType for f in given.fields}
    if not known.keys() <= {f.name for f in kind.fields}:
        # The frame has a member that the table lacks; a later check refuses it.
        return None
    parts, changed = [], False
    for field in kind.fields:
        if field.name in known:
            own = f"{value}.{identifier(field.name)}"
            inside = _filled(own, field.type, known[field.name], depth + 1)
            changed = changed or inside is not None
            parts.append((field.name, inside or own))
        elif field.nullable:
            changed = True
            parts.append((field.name, f"CAST(NULL AS {sql_type(field.type)})"))
        else:
            return None
    if not changed:
        return None
    members = ", ".join(f"{literal(n)}, {text}" for n, text in parts)
    return f"CASE WHEN {value} IS NULL THEN NULL ELSE named_struct({members}) END"
