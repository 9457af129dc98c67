"""Converts schemas to and from Delta's `schemaString`.

Field ids, and what Delta cannot express (millisecond timestamps, defaults, which fields are
indexed), are stored in field metadata, so that a lost store can be rebuilt from published logs.

Two types of Delta are only read: a `variant` is shown as it is in files, as a struct of the bytes
`metadata` and `value`, and a `void` as a string that is always null.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeGuard

import orjson

from lakeward.errors import CorruptTable
from lakeward.formats.delta.defaults import CURRENT, default_of
from lakeward.model.schema import INDEXED_FIELDS, Schema, indexable
from lakeward.model.types import Decimal, Field, Ids, ListOf, MapOf, Primitive, Struct, Type

ID: Final = "lakeward.id"
TYPE: Final = "lakeward.type"
DEFAULT: Final = "lakeward.default"
INDEXED: Final = "lakeward.indexed"
OPTIONAL: Final = "lakeward.optional"
NESTED_IDS: Final = "lakeward.nestedIds"
NESTED_TYPES: Final = "lakeward.nestedTypes"
COMMENT: Final = "comment"
EXPRESSION: Final = "delta.generationExpression"

_TO_DELTA: Final = {
    "boolean": "boolean",
    "int8": "byte",
    "int16": "short",
    "int32": "integer",
    "int64": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
    "timestamp_ms": "timestamp",
    "timestamp_ms_ntz": "timestamp_ntz",
}
_FROM_DELTA: Final = {v: k for k, v in _TO_DELTA.items() if "_ms" not in k}
SHOWN_AS: Final = "lakeward.deltaType"
"""The key in the metadata of a field that is shown as another type: Delta's name of its type."""
_VARIANT: Final = "variant"
_ONLY_SHOWN: Final = frozenset({_VARIANT, "void", "null"})
_OWN_KEYS: Final = frozenset(
    {ID, TYPE, DEFAULT, INDEXED, OPTIONAL, NESTED_IDS, NESTED_TYPES, COMMENT}
)


class UnknownType(ValueError):
    """A column has a type that the lake does not support."""

    def __init__(self, kind: str, column: str = "") -> None:
        super().__init__(kind)
        self.kind, self.column = kind, column


def schema_string(schema: Schema) -> str:
    """Return the `schemaString` of a schema."""
    return orjson.dumps(_struct(schema.fields)).decode()


def parse_schema(text: str, *, last_id: int = 0) -> Schema:
    """Return the schema of a `schemaString`; fields without an id of Lakeward get new ids.

    Raises `CorruptTable`.
    """
    try:
        body = orjson.loads(text)
        known = [i for f in _walk(body) for i in (_id_of(f), *_nested_ids(f))]
        ids = Ids(max([last_id, *(i for i in known if i is not None)]))
        marked = any(i is not None for i in known)
        fields = tuple(_field(f, ids) for f in body["fields"])
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        what = "The table's schema cannot be understood."
        raise CorruptTable(what, hint="Its log is damaged or needs a newer Lakeward.") from error
    if not marked:
        fields = tuple(
            replace(f, indexed=indexable(f.type) and position < INDEXED_FIELDS)
            for position, f in enumerate(fields)
        )
    return Schema(fields, ids.last)


def delta_type_name(kind: Type) -> str:
    """Return Delta's name of a type that has no parts."""
    return str(_type_json(kind))


def physical_name(field: Field) -> str:
    """Return the column's name inside data files, statistics and partition values."""
    return str(field.metadata.get("delta.columnMapping.physicalName", field.name))


def has_timestamp_ntz(schema: Schema) -> bool:
    """Return whether a column is a timestamp without zone, which is a feature of Delta."""
    return any(isinstance(f.type, Primitive) and f.type.name.endswith("ntz") for f in schema.walk())


def is_generated(field: Field) -> bool:
    """Return whether the column's values are computed from other columns by an expression."""
    return EXPRESSION in field.metadata


def only_shown(schema: Schema) -> list[tuple[str, str]]:
    """Return name and Delta type of the columns, or parts of columns, that can only be read."""
    return [(f.name, str(f.metadata[SHOWN_AS])) for f in schema.walk() if SHOWN_AS in f.metadata]


def _struct(fields: tuple[Field, ...]) -> dict[str, Any]:
    return {"type": "struct", "fields": [_field_json(f) for f in fields]}


def _field_json(field: Field) -> dict[str, Any]:
    metadata: dict[str, Any] = {k: v for k, v in field.metadata.items() if k != SHOWN_AS}
    metadata[ID] = field.id
    if _is_ms(field.type):
        metadata[TYPE] = field.type.name
    parts = list(_unnamed(field.type))
    if parts:
        metadata[NESTED_IDS] = {path: part.id for path, part in parts}
        types = {path: part.type.name for path, part in parts if _is_ms(part.type)}
        if types:
            metadata[NESTED_TYPES] = types
    if field.default is not None and CURRENT not in field.metadata:
        metadata[DEFAULT] = field.default
    if field.indexed:
        metadata[INDEXED] = True
    if field.optional:
        metadata[OPTIONAL] = True
    if field.comment is not None:
        metadata[COMMENT] = field.comment
    return {
        "name": field.name,
        "type": _delta_type(field),
        "nullable": field.nullable,
        "metadata": metadata,
    }


def _delta_type(field: Field) -> Any:
    return field.metadata.get(SHOWN_AS) or _type_json(field.type)


def _type_json(kind: Type) -> Any:
    match kind:
        case Primitive(name):
            return _TO_DELTA[name]
        case Decimal(precision, scale):
            return f"decimal({precision},{scale})"
        case Struct(fields):
            return _struct(fields)
        case ListOf(element):
            return {
                "type": "array",
                "elementType": _delta_type(element),
                "containsNull": element.nullable,
            }
        case MapOf(key, value):
            return {
                "type": "map",
                "keyType": _delta_type(key),
                "valueType": _delta_type(value),
                "valueContainsNull": value.nullable,
            }


def _field(source: dict[str, Any], ids: Ids) -> Field:
    metadata = source.get("metadata") or {}
    own = _id_of(source)
    try:
        kind = _finer(metadata.get(TYPE), source["type"]) or _type(source["type"], ids, source)
    except UnknownType as error:
        raise UnknownType(error.kind, error.column or str(source["name"])) from error
    found = Field(
        id=own if own is not None else ids.next(),
        name=source["name"],
        type=kind,
        nullable=source["nullable"],
        comment=metadata.get(COMMENT),
        default=metadata.get(DEFAULT),
        indexed=bool(metadata.get(INDEXED, False)),
        metadata={k: v for k, v in metadata.items() if k not in _OWN_KEYS}
        | _shown_as(source["type"]),
        optional=bool(metadata.get(OPTIONAL, False)),
    )
    if CURRENT not in metadata:
        return found
    value = default_of(found)
    # Data may lack a column with a default, even if the default is null.
    return replace(found, default=value, optional=found.optional or value is None)


def _type(source: Any, ids: Ids, owner: dict[str, Any], path: str = "") -> Type:
    if isinstance(source, str):
        if source.startswith("decimal("):
            precision, scale = source[len("decimal(") : -1].split(",")
            return Decimal(int(precision), int(scale))
        if source == _VARIANT:
            # As in files; Parquet's specification defines the content of the two.
            parts = (("metadata", ids.next()), ("value", ids.next()))
            return Struct(tuple(Field(i, n, Primitive("binary")) for n, i in parts))
        if source in _ONLY_SHOWN:
            return Primitive("string")
        if source not in _FROM_DELTA:
            raise UnknownType(source)
        return Primitive(_FROM_DELTA[source])
    match source["type"]:
        case "struct":
            return Struct(tuple(_field(f, ids) for f in source["fields"]))
        case "array":
            nullable = source["containsNull"]
            return ListOf(_part("element", source["elementType"], nullable, ids, owner, path))
        case "map":
            nullable = source["valueContainsNull"]
            key = _part("key", source["keyType"], False, ids, owner, path)
            return MapOf(key, _part("value", source["valueType"], nullable, ids, owner, path))
        case other:
            raise KeyError(other)


def _part(
    name: str, source: Any, nullable: Any, ids: Ids, owner: dict[str, Any], path: str
) -> Field:
    """Return an element, key or value as a field; the enclosing field has its id and type."""
    here = path + name
    own = _whole(_nested(owner, NESTED_IDS).get(here))
    kind = _finer(_nested(owner, NESTED_TYPES).get(here), source)
    inner = kind or _type(source, ids, owner, f"{here}.")
    number = own if own is not None else ids.next()
    return Field(number, name, inner, nullable, metadata=_shown_as(source))


def _shown_as(source: Any) -> dict[str, Any]:
    return {SHOWN_AS: source} if isinstance(source, str) and source in _ONLY_SHOWN else {}


def _finer(own: Any, source: Any) -> Primitive | None:
    """Return the lake's type of a field, or None if another engine has changed the type since."""
    return Primitive(own) if isinstance(own, str) and _TO_DELTA.get(own) == source else None


def _nested(source: dict[str, Any], key: str) -> dict[str, Any]:
    """Return metadata about the parts below a field; some engines store it as a JSON text."""
    found = (source.get("metadata") or {}).get(key)
    if isinstance(found, str):
        with suppress(ValueError):
            found = orjson.loads(found)
    return found if isinstance(found, dict) else {}


def _nested_ids(source: dict[str, Any]) -> list[int | None]:
    return [_whole(i) for i in _nested(source, NESTED_IDS).values()]


def _whole(value: Any) -> int | None:
    """Return a value as a field id of Lakeward; None if it is not a valid id."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 10:
        value = int(value)
    return value if type(value) is int and value > 0 else None


def _unnamed(kind: Type, path: str = "") -> Iterator[tuple[str, Field]]:
    """Yield path and field of each element, key and value below a type.

    Delta has no metadata for these parts themselves.
    """
    match kind:
        case ListOf(element):
            parts: tuple[Field, ...] = (element,)
        case MapOf(key, value):
            parts = (key, value)
        case _:
            return
    for part in parts:
        yield path + part.name, part
        yield from _unnamed(part.type, f"{path}{part.name}.")


def _is_ms(kind: Type) -> TypeGuard[Primitive]:
    return isinstance(kind, Primitive) and "_ms" in kind.name


def _walk(body: Any) -> list[dict[str, Any]]:
    """Return every named field of a schema's JSON."""
    found: list[dict[str, Any]] = []
    stack = [body]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            if "name" in node and "type" in node:
                found.append(node)
            stack.extend(v for k, v in node.items() if k != "metadata")
        elif isinstance(node, list):
            stack.extend(node)
    return found


def _id_of(source: dict[str, Any]) -> int | None:
    return _whole((source.get("metadata") or {}).get(ID))
