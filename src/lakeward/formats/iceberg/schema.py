"""Converts the neutral schema to and from Iceberg's JSON.

Field ids are the same. What Iceberg cannot express (millisecond timestamps, defaults, which fields
are indexed) is kept as notes in a table property, so that a lost store can be rebuilt from the
published metadata alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from lakeward.errors import UnsupportedFeature
from lakeward.formats.iceberg.values import from_json, to_json
from lakeward.model.schema import INDEXED_FIELDS, Schema, indexable
from lakeward.model.types import READ_ONLY, Decimal, Field, ListOf, MapOf, Primitive, Struct, Type
from lakeward.model.values import Value

_NAMES: Final = {
    "boolean": "boolean",
    "int32": "int",
    "int64": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
    "timestamp_ms": "timestamptz",
    "timestamp_ms_ntz": "timestamp",
    "time": "time",
    "ns_timestamp": "timestamptz_ns",
    "ns_timestamp_ntz": "timestamp_ns",
}
_NEUTRAL: Final = {v: k for k, v in _NAMES.items() if "_ms" not in k} | {"uuid": "string"}
STORED_AS: Final = "lakeward.icebergType"
"""The key, in a field's metadata, of the Iceberg type of a column that is shown as another type.

A `uuid` is shown as its text, and a `fixed` as bytes.
"""
INITIAL: Final = "lakeward.icebergInitialDefault"
"""The key, in a field's metadata, of its value, as JSON, in files that lack the column."""
_WRITE: Final = "write-default"
_DEFAULTS: Final = {"initial-default": INITIAL, _WRITE: _WRITE}
_FIXED: Final = re.compile(r"fixed\[\s*\d+\s*\]")
_DECIMAL: Final = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")


def schema_json(schema: Schema, schema_id: int) -> dict[str, Any]:
    """Return the schema as Iceberg's JSON; raise `UnsupportedFeature` for types it lacks."""
    return {
        "type": "struct",
        "schema-id": schema_id,
        "fields": [_field_json(f, f.name) for f in schema.fields],
    }


def check_schema(schema: Schema) -> None:
    """Raise `UnsupportedFeature` for types that Iceberg lacks, and for two fields of one path.

    Iceberg finds fields by paths, so a column `a.b` and the member `b` of `a` cannot be told apart.
    """
    schema_json(schema, 0)
    known = set()
    for path in _paths(schema.fields, ""):
        if path in known:
            what = f"Column {path} has the path of a part of another column."
            hint = "Rename the column: Iceberg finds columns and their parts by paths."
            raise UnsupportedFeature(what, hint=hint, column=path)
        known.add(path)


def _paths(fields: Iterable[Field], above: str) -> Iterator[str]:
    for field in fields:
        yield f"{above}{field.name}"
        yield from _paths(_parts(field.type), f"{above}{field.name}.")


def _parts(kind: Type) -> Sequence[Field]:
    match kind:
        case Struct(fields):
            return fields
        case ListOf(element):
            return [replace(element, name="element")]
        case MapOf(key, value):
            return [replace(key, name="key"), replace(value, name="value")]
    return ()


def type_name(kind: Type) -> str:
    """Return Iceberg's name of a type that has no parts."""
    if isinstance(kind, Decimal):
        return f"decimal({kind.precision}, {kind.scale})"
    name = kind.name if isinstance(kind, Primitive) else str(kind)
    return _NAMES.get(name, name)


def parse_schema(
    source: Mapping[str, Any], last_id: int, notes: Mapping[str, Mapping[str, Any]] | None = None
) -> Schema:
    """Return the neutral schema of Iceberg's JSON, with the notes of `schema_notes`.

    `last_id` is the highest field id that the table ever used. Raises `UnsupportedFeature`.
    """
    known = notes or {}
    fields = [_field(f, known, f["name"]) for f in source["fields"]]
    # Files without the column have its default there, which the index would treat as null.
    filled = {f["id"] for f in source["fields"] if f.get("initial-default") is not None}
    indexed = (
        replace(f, indexed=f.indexed and f.id not in filled) for f in _indexed(fields, known)
    )
    return Schema(tuple(indexed), last_id)


def schema_notes(schema: Schema) -> dict[str, dict[str, Any]]:
    """Return, by field id, the facts of a schema that Iceberg's JSON cannot express."""
    usual = {f.id: f.indexed for f in _indexed(list(schema.fields), {})}
    notes: dict[str, dict[str, Any]] = {}
    for field in schema.walk():
        note: dict[str, Any] = {}
        if isinstance(field.type, Primitive) and field.type.name.startswith("timestamp_ms"):
            note["type"] = field.type.name
        if field.default is not None and _WRITE not in field.metadata:
            note["default"] = field.default
        if field.optional:
            note["optional"] = True
        if field.indexed != usual.get(field.id, False):
            note["indexed"] = field.indexed
        if note:
            notes[str(field.id)] = note
    return notes


def with_defaults(schema: Schema, before: Schema) -> Schema:
    """Return a changed schema of format version 3, with Iceberg's defaults for changed columns.

    A new column has its default in older files, too.
    """
    known = {f.id: f for f in before.fields}
    return Schema(tuple(_with_default(f, known.get(f.id)) for f in schema.fields), schema.last_id)


def _with_default(field: Field, before: Field | None) -> Field:
    if field.default == (None if before is None else before.default):
        return field
    metadata = {k: v for k, v in field.metadata.items() if k != _WRITE}
    if field.default is None:
        return replace(field, metadata=metadata)
    metadata[_WRITE] = to_json(field.type, field.default)
    if before is not None:
        return replace(field, metadata=metadata)
    # Files without the column have its default there, which the index would treat as null.
    return replace(field, metadata={**metadata, INITIAL: metadata[_WRITE]}, indexed=False)


def initial_defaults(schema: Schema) -> dict[int, Value]:
    """Return, by field id, the values of columns in files written before the column existed."""
    return {
        f.id: from_json(f.type, f.metadata[INITIAL])
        for f in schema.walk()
        if INITIAL in f.metadata and not isinstance(f.type, Struct | ListOf | MapOf)
    }


def _indexed(fields: list[Field], notes: Mapping[str, Mapping[str, Any]]) -> list[Field]:
    out = []
    for position, field in enumerate(fields):
        # Writers order the bounds of uuids in two different ways.
        known = indexable(field.type) and STORED_AS not in field.metadata
        usual = known and position < INDEXED_FIELDS
        out.append(replace(field, indexed=notes.get(str(field.id), {}).get("indexed", usual)))
    return out


def _field_json(field: Field, path: str) -> dict[str, Any]:
    out: dict[str, Any] = {
        "id": field.id,
        "name": field.name,
        "required": not field.nullable,
        "type": _stored_json(field, path),
    }
    if field.comment is not None:
        out["doc"] = field.comment
    if INITIAL in field.metadata:
        out["initial-default"] = field.metadata[INITIAL]
    if _WRITE in field.metadata:
        out[_WRITE] = field.metadata[_WRITE]
    return out


def _stored_json(field: Field, path: str) -> Any:
    return field.metadata.get(STORED_AS) or _type_json(field.type, path)


def _type_json(kind: Type, path: str) -> Any:
    match kind:
        case Primitive(name) if name in _NAMES:
            return _NAMES[name]
        case Decimal():
            return type_name(kind)
        case Struct(fields):
            return {
                "type": "struct",
                "fields": [_field_json(f, f"{path}.{f.name}") for f in fields],
            }
        case ListOf(element):
            return {
                "type": "list",
                "element-id": element.id,
                "element": _stored_json(element, f"{path}.element"),
                "element-required": not element.nullable,
            }
        case MapOf(key, value):
            return {
                "type": "map",
                "key-id": key.id,
                "key": _stored_json(key, f"{path}.key"),
                "value-id": value.id,
                "value": _stored_json(value, f"{path}.value"),
                "value-required": not value.nullable,
            }
    what = f"Column {path} has the type {kind}, which Iceberg has not."
    raise UnsupportedFeature(what, hint="Use int32 or wider.", column=path)


def _field(source: Mapping[str, Any], notes: Mapping[str, Mapping[str, Any]], path: str) -> Field:
    note = notes.get(str(source["id"]), {})
    kind = _type(source["type"], notes, path)
    if "type" in note:
        kind = Primitive(note["type"])
    metadata = {STORED_AS: source["type"]} if _is_shown(source["type"]) else {}
    return Field(
        id=source["id"],
        name=source["name"],
        type=kind,
        nullable=not source.get("required", False),
        comment=source.get("doc"),
        default=_default(source, kind, note),
        metadata=metadata
        | {k: source[n] for n, k in _DEFAULTS.items() if source.get(n) is not None},
        optional=note.get("optional", False),
    )


def _default(source: Mapping[str, Any], kind: Type, note: Mapping[str, Any]) -> Any:
    """Return the value to write if data lacks the column: the format's default, or the lake's."""
    found = source.get(_WRITE)
    is_plain = found is not None and not isinstance(kind, Struct | ListOf | MapOf)
    return from_json(kind, found) if is_plain else note.get("default")


def not_written(schema: Schema) -> list[tuple[str, str]]:
    """Return name and type of columns, or parts of columns, that the embedded engine only reads."""
    return [
        (f.name, _stored_json(f, f.name))
        for f in schema.walk()
        if STORED_AS in f.metadata or (isinstance(f.type, Primitive) and f.type.name in READ_ONLY)
    ]


def _is_shown(source: Any) -> bool:
    """Return whether values of an Iceberg type are shown as another type."""
    return isinstance(source, str) and (source == "uuid" or _FIXED.fullmatch(source) is not None)


def _type(source: Any, notes: Mapping[str, Mapping[str, Any]], path: str) -> Type:
    if isinstance(source, str):
        decimal = _DECIMAL.fullmatch(source)
        if decimal:
            return Decimal(int(decimal[1]), int(decimal[2]))
        if source in _NEUTRAL:
            return Primitive(_NEUTRAL[source])
        if _FIXED.fullmatch(source):
            return Primitive("binary")
        what = f"Column {path} has the Iceberg type {source}, which the lake does not know."
        raise UnsupportedFeature(what, hint="Read the table with Spark.", column=path)
    if source["type"] == "struct":
        return Struct(tuple(_field(f, notes, f"{path}.{f['name']}") for f in source["fields"]))
    if source["type"] == "list":
        return ListOf(_part(source, "element", notes, path, required=source["element-required"]))
    return MapOf(
        _part(source, "key", notes, path, required=True),
        _part(source, "value", notes, path, required=source["value-required"]),
    )


def _part(
    source: Mapping[str, Any],
    name: str,
    notes: Mapping[str, Mapping[str, Any]],
    path: str,
    *,
    required: bool,
) -> Field:
    whole = {
        "id": source[f"{name}-id"],
        "name": name,
        "type": source[name],
        "required": required,
    }
    return _field(whole, notes, f"{path}.{name}")
