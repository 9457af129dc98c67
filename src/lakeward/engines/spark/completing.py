"""Brings the structs of a DataFrame into the form of the table's structs.

Spark inserts the members of a struct by position, whatever their names are, and fills only whole
columns with nulls. So the members are put into the table's order, by name, and members that the
frame lacks are filled with nulls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakeward.engines.spark.extra import pyspark
from lakeward.errors import SchemaMismatch
from lakeward.model.described import sql_type
from lakeward.model.quoting import identifier, literal
from lakeward.model.schema import Schema
from lakeward.model.types import ListOf, MapOf, Struct, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def check_members(frame: DataFrame, schema: Schema, table: str) -> None:
    """Raise `SchemaMismatch` if the members of a struct do not fit those of the table's struct.

    It has a member that the table lacks, or one twice, or it lacks a required member.
    """
    for given in frame.schema.fields:
        field = schema.by_name.get(given.name)
        if field is not None:
            _check(field.type, given.dataType, given.name, table)


def completed(frame: DataFrame, schema: Schema) -> DataFrame:
    """Return a DataFrame whose structs have the members of the table's structs, in their order.

    A struct that does not fit the table's stays as it is.
    """
    chosen, changed = [], False
    for given in frame.schema.fields:
        own = identifier(given.name)
        field = schema.by_name.get(given.name)
        text = None if field is None else _filled(own, field.type, given.dataType, 0)
        changed = changed or text is not None
        chosen.append(own if text is None else f"{text} AS {own}")
    return frame.selectExpr(*chosen) if changed else frame


def _check(kind: Type, given: Any, column: str, table: str) -> None:
    types = pyspark("sql.types")
    match kind:
        case Struct(fields) if isinstance(given, types.StructType):
            known, names = {f.name: f for f in fields}, [f.name for f in given.fields]
            surplus = [n for n in names if n not in known or names.count(n) > 1]
            lacking = [f.name for f in fields if f.name not in names and not f.nullable]
            if surplus or lacking:
                parts = [f"lacks the member {n}" for n in lacking[:1]]
                if surplus:
                    is_known = surplus[0] in known
                    why = "more than once" if is_known else "which the table does not have"
                    comma = "" if is_known else ","
                    parts.append(f"has the member {surplus[0]}{comma} {why}")
                what = f"Column {column} of the data for {table} {' and '.join(parts)}."
                hint = f"The table's members are {', '.join(known)}."
                raise SchemaMismatch(what, hint=hint, table=table, columns=[column])
            for part in given.fields:
                _check(known[part.name].type, part.dataType, f"{column}.{part.name}", table)
        case ListOf(element) if isinstance(given, types.ArrayType):
            _check(element.type, given.elementType, f"{column}.element", table)
        case MapOf(key, value) if isinstance(given, types.MapType):
            _check(key.type, given.keyType, f"{column}.key", table)
            _check(value.type, given.valueType, f"{column}.value", table)
        case _:
            pass


def _filled(value: str, kind: Type, given: Any, depth: int) -> str | None:
    """Return an expression for a value in the table's form; None if it has that form already."""
    types, name = pyspark("sql.types"), f"v{depth}"
    match kind:
        case Struct() if isinstance(given, types.StructType):
            return _struct(value, kind, given, depth)
        case ListOf(element) if isinstance(given, types.ArrayType):
            inside = _filled(name, element.type, given.elementType, depth + 1)
            return None if inside is None else f"transform({value}, {name} -> {inside})"
        case MapOf(own, part) if isinstance(given, types.MapType):
            key, out = f"k{depth}", value
            of_key = _filled(key, own.type, given.keyType, depth + 1)
            if of_key is not None:
                out = f"transform_keys({out}, ({key}, {name}) -> {of_key})"
            inside = _filled(name, part.type, given.valueType, depth + 1)
            if inside is not None:
                out = f"transform_values({out}, ({key}, {name}) -> {inside})"
            return None if out == value else out
        case _:
            return None


def _struct(value: str, kind: Struct, given: Any, depth: int) -> str | None:
    known = {f.name: f.dataType for f in given.fields}
    if len(known) != len(given.fields) or not known.keys() <= {f.name for f in kind.fields}:
        return None
    parts, changed = [], list(known) != [f.name for f in kind.fields]
    for field in kind.fields:
        if field.name in known:
            own = f"{value}.{identifier(field.name)}"
            inside = _filled(own, field.type, known[field.name], depth + 1)
            changed = changed or inside is not None
            parts.append((field.name, inside or own))
        elif not field.nullable:
            return None
        else:
            parts.append((field.name, f"CAST(NULL AS {sql_type(field.type)})"))
    if not changed:
        return None
    members = ", ".join(f"{literal(n)}, {text}" for n, text in parts)
    return f"CASE WHEN {value} IS NULL THEN NULL ELSE named_struct({members}) END"
