"""Finds types of Spark whose values a table of the lake cannot store, before rows are written.

- Arrow has no such type: a VARIANT would become a struct of bytes, and a text would silently lose
  its collation or its length.
- The table's column has another type, to which Spark converts values with a silent loss.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from lakeward.model.schema import Schema
from lakeward.model.types import Decimal, ListOf, MapOf, Struct, Type

_PLAIN: Final = "UTF8_BINARY"
_INSTEAD: Final = {
    "VariantType": "Keep its JSON: to_json(…) and STRING.",
    "GeometryType": "Keep it as binary: st_asbinary(…) and BINARY.",
    "GeographyType": "Keep it as binary: st_asbinary(…) and BINARY.",
    "CharType": "Use STRING, and a check of the table for its length.",
    "VarcharType": "Use STRING, and a check of the table for its length.",
    "StringType": "Use STRING without a collation: CAST(… AS STRING). Collate when you compare.",
}
_INTEGERS: Final = ("int8", "int16", "int32", "int64")
_FLOATS: Final = ("FloatType", "DoubleType")


def foreign_types(schema: Any) -> Iterator[tuple[str, str, str]]:
    """Yield the columns, and nested parts, that would get other types.

    Each is a tuple of the name, the type, and a hint what to use instead.
    """
    for field in schema.fields:
        yield from _within(field.dataType, field.name)


def _within(kind: Any, name: str) -> Iterator[tuple[str, str, str]]:
    called = type(kind).__name__
    if called == "StructType":
        for field in kind.fields:
            yield from _within(field.dataType, f"{name}.{field.name}")
    elif called == "ArrayType":
        yield from _within(kind.elementType, f"{name}.element")
    elif called == "MapType":
        yield from _within(kind.keyType, f"{name}.key")
        yield from _within(kind.valueType, f"{name}.value")
    elif called in _INSTEAD and getattr(kind, "collation", None) != _PLAIN:
        yield name, str(kind.simpleString()).upper(), _INSTEAD[called]


def cut_types(schema: Any, table: Schema) -> Iterator[tuple[str, str, str]]:
    """Yield the columns, and nested parts, of which Spark would silently cut values.

    Each is a tuple of the name, the type, and the type of the table's column.
    """
    for field in schema.fields:
        own = table.by_name.get(field.name)
        if own is not None:
            yield from _cut(field.dataType, own.type, field.name)


def _cut(given: Any, kept: Type, name: str) -> Iterator[tuple[str, str, str]]:
    called = type(given).__name__
    match kept:
        case Struct(fields) if called == "StructType":
            own = {f.name: f.type for f in fields}
            for part in given.fields:
                if part.name in own:
                    yield from _cut(part.dataType, own[part.name], f"{name}.{part.name}")
        case ListOf(element) if called == "ArrayType":
            yield from _cut(given.elementType, element.type, f"{name}.element")
        case MapOf(key, value) if called == "MapType":
            yield from _cut(given.keyType, key.type, f"{name}.key")
            yield from _cut(given.valueType, value.type, f"{name}.value")
        case _ if _is_cut(given, kept):
            yield name, str(given.simpleString()), str(kept)


def _is_cut(given: Any, kept: Type) -> bool:
    """Return whether Spark rounds or truncates values of a type for a column of another."""
    called = type(given).__name__
    scale = given.scale if called == "DecimalType" else 0
    if isinstance(kept, Decimal):
        return called in _FLOATS or scale > kept.scale
    if str(kept) in _INTEGERS:
        return called in _FLOATS or scale > 0
    if str(kept) == "float":
        return called == "DoubleType"
    return str(kept) == "date" and called.startswith("Timestamp")
