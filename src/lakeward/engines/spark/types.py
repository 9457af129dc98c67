"""Types of Spark that a table of the lake does not keep, found before rows are written.

Arrow has no such types: a VARIANT would become a struct of bytes, and a text would lose its
collation, or its length, without a word.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

_PLAIN: Final = "UTF8_BINARY"
_INSTEAD: Final = {
    "VariantType": "Keep its JSON: to_json(…) and STRING.",
    "GeometryType": "Keep it as binary: st_asbinary(…) and BINARY.",
    "GeographyType": "Keep it as binary: st_asbinary(…) and BINARY.",
    "CharType": "Use STRING, and a check of the table for its length.",
    "VarcharType": "Use STRING, and a check of the table for its length.",
    "StringType": "Use STRING without a collation: CAST(… AS STRING). Collate when you compare.",
}


def foreign_types(schema: Any) -> Iterator[tuple[str, str, str]]:
    """Columns, and parts of them, whose types would become others."""
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
