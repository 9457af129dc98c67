"""Column types, by Lakeward's neutral names.

A type is one of `Primitive`, `Decimal`, `Struct`, `ListOf`, `MapOf`. Every field, nested ones too,
has an id that never changes, so that statistics, partitions and constraints survive a rename.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import pyarrow as pa

from lakeward.errors import InvalidInput, UnsupportedFeature

PRIMITIVES: Final[dict[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "timestamp_ms": pa.timestamp("ms", "UTC"),
    "timestamp_ms_ntz": pa.timestamp("ms"),
}
READ_ONLY: Final[dict[str, pa.DataType]] = {
    "time": pa.time64("us"),
    "ns_timestamp": pa.timestamp("ns", "UTC"),
    "ns_timestamp_ntz": pa.timestamp("ns"),
}
"""Types that only other engines create; neutral values are integers: micro- or nanoseconds."""
FILE_ID: Final = "lakeward.fileId"
"""Metadata of a field: the id that it has in files, if that is not `Field.id`; None for no id."""
_PRIMITIVE_OF: Final[dict[pa.DataType, str]] = {v: k for k, v in PRIMITIVES.items()}
_MAX_NESTING: Final = 64


@dataclass(frozen=True, slots=True)
class Primitive:
    """A type without parts, named by a key of `PRIMITIVES` or `READ_ONLY`."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Decimal:
    """An exact number of `precision` digits, `scale` of them after the point."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class Struct:
    """Named fields."""

    fields: tuple[Field, ...]

    def __str__(self) -> str:
        return "struct<" + ", ".join(f"{f.name}: {f.type}" for f in self.fields) + ">"


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of elements of one type."""

    element: Field

    def __str__(self) -> str:
        return f"list<{self.element.type}>"


@dataclass(frozen=True, slots=True)
class MapOf:
    """A map from keys to values."""

    key: Field
    value: Field

    def __str__(self) -> str:
        return f"map<{self.key.type}, {self.value.type}>"


Type: TypeAlias = Primitive | Decimal | Struct | ListOf | MapOf


@dataclass(frozen=True, slots=True)
class Field:
    """A column or a nested part of one.

    Attributes:
        id: Never changes, and is never reused within a table.
        name: The name that users see.
        type: The type of the values.
        nullable: Whether a value may be null.
        comment: A description for users.
        default: Written if data lacks the column; in the neutral JSON form of values.
        indexed: Whether every file of the table has a row for this field in the statistics index.
        metadata: Data of the format about the field, stored unchanged.
        optional: Whether data may lack the column, whose values are then null: the column was added
            later, and programs that write the table may not have it.
    """

    id: int
    name: str
    type: Type
    nullable: bool = True
    comment: str | None = None
    default: Any = None
    indexed: bool = False
    metadata: dict[str, Any] = field(default_factory=dict, hash=False)
    optional: bool = False


def arrow_type(kind: Type) -> pa.DataType:
    """Return the Arrow type that data of this type has in memory."""
    match kind:
        case Primitive(name):
            return READ_ONLY[name] if name in READ_ONLY else PRIMITIVES[name]
        case Decimal(precision, scale):
            return pa.decimal128(precision, scale)
        case Struct(fields):
            return pa.struct([arrow_field(f) for f in fields])
        case ListOf(element):
            return pa.list_(arrow_field(element))
        case MapOf(key, value):
            return pa.map_(arrow_field(key), arrow_field(value))


def stored_field_type(field: Field) -> pa.DataType:
    """Return the Arrow type that a top-level column has inside files."""
    return stored_type(arrow_type(field.type))


def stored_type(source: pa.DataType) -> pa.DataType:
    """Return the type that values have inside files: milliseconds become microseconds."""
    types = pa.types
    if types.is_timestamp(source) and source.unit != "ns":
        return pa.timestamp("us", source.tz)
    if types.is_struct(source):
        return pa.struct([_stored_field(f) for f in source])
    if types.is_list(source):
        return pa.list_(_stored_field(source.value_field))
    if types.is_map(source):
        return pa.map_(_stored_field(source.key_field), _stored_field(source.item_field))
    return source


def _stored_field(source: pa.Field) -> pa.Field:
    return pa.field(source.name, stored_type(source.type), source.nullable, source.metadata)


def arrow_field(source: Field) -> pa.Field:
    """Return the Arrow field, with the field id in the metadata that Parquet uses."""
    number = file_id(source)
    metadata = {} if number is None else {b"PARQUET:field_id": str(number).encode()}
    if source.comment:
        metadata[b"comment"] = source.comment.encode()
    return pa.field(source.name, arrow_type(source.type), source.nullable, metadata)


def file_id(source: Field) -> int | None:
    """Return the id that a field has in Parquet files; None if it has none there."""
    found: int | None = source.metadata.get(FILE_ID, source.id)
    return found


class Ids:
    """A sequence of field ids."""

    def __init__(self, last: int = 0) -> None:
        self.last = last

    def next(self) -> int:
        """Return the next free id."""
        self.last += 1
        return self.last


def type_from_arrow(source: pa.DataType, ids: Ids, *, where: str, depth: int = 0) -> Type:
    """Return the neutral type of an Arrow type; raise `UnsupportedFeature` if there is none."""
    if depth > _MAX_NESTING:
        what = f"Column {where} is nested deeper than {_MAX_NESTING} levels."
        raise UnsupportedFeature(what, column=where)
    types = pa.types
    if types.is_dictionary(source):
        return type_from_arrow(source.value_type, ids, where=where, depth=depth)
    if source in _PRIMITIVE_OF:
        return Primitive(_PRIMITIVE_OF[source])
    if types.is_timestamp(source) and source.unit in ("ms", "us"):
        name = "timestamp" if source.unit == "us" else "timestamp_ms"
        return Primitive(name if source.tz else f"{name}_ntz")
    if types.is_large_string(source) or types.is_string_view(source):
        return Primitive("string")
    if types.is_large_binary(source) or types.is_binary_view(source):
        return Primitive("binary")
    if types.is_decimal(source) and source.precision <= 38 and source.scale >= 0:
        return Decimal(source.precision, source.scale)
    if types.is_struct(source) and source.num_fields:
        fields = tuple(_field_from_arrow(f, ids, where, depth) for f in source)
        check_names(fields, where)
        return Struct(fields)
    if _is_list(source):
        return ListOf(_field_from_arrow(source.value_field, ids, where, depth, name="element"))
    if types.is_map(source):
        key = _field_from_arrow(source.key_field, ids, where, depth, name="key")
        value = _field_from_arrow(source.item_field, ids, where, depth, name="value")
        return MapOf(key, value)
    what = f"Column {where} has the Arrow type {source}, which no table format here can hold."
    raise UnsupportedFeature(what, hint=_type_hint(source), column=where)


def check_names(fields: Sequence[Field], where: str | None = None) -> None:
    """Raise `InvalidInput` for columns whose names differ only in case, and equal nested names."""
    what, place = ("parts", f" of column {where}") if where else ("columns", "")
    seen: dict[str, str] = {}
    for one in fields:
        other = seen.get(one.name if where else one.name.lower())
        if other == one.name:
            problem = f"There are two {what} {other!r}{place}."
            raise InvalidInput(problem, hint="Rename one of them.", column=one.name)
        if other is not None and not where:
            problem = f"The {what} {other!r} and {one.name!r}{place} differ only in case."
            hint = "Rename one of them: many readers ignore case."
            raise InvalidInput(problem, hint=hint, column=one.name)
        seen[one.name if where else one.name.lower()] = one.name


def field_from_arrow(source: pa.Field, ids: Ids) -> Field:
    """Return the neutral field of a top-level Arrow field, with fresh ids."""
    return _field_from_arrow(source, ids, "", 0)


def _field_from_arrow(
    source: pa.Field, ids: Ids, where: str, depth: int, *, name: str | None = None
) -> Field:
    label = name or source.name
    if not label:
        what = "A column has an empty name."
        raise InvalidInput(what, hint="Give every column a name.")
    path = f"{where}.{label}" if where else label
    own = ids.next()
    kind = type_from_arrow(source.type, ids, where=path, depth=depth + 1)
    metadata = source.metadata or {}
    comment = metadata.get(b"comment")
    return Field(
        id=own,
        name=label,
        type=kind,
        nullable=source.nullable,
        comment=comment.decode() if comment else None,
    )


def _is_list(source: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_list(source)
        or types.is_large_list(source)
        or types.is_fixed_size_list(source)
        or types.is_list_view(source)
        or types.is_large_list_view(source)
    )


def _type_hint(source: pa.DataType) -> str:
    types = pa.types
    if types.is_timestamp(source):
        return "Use timestamp('us') or timestamp('ms')."
    if types.is_unsigned_integer(source):
        return "Use a signed integer wide enough."
    if types.is_null(source):
        return "Give the column a type."
    if types.is_struct(source):
        return "Give the struct at least one part."
    return "Cast it to a supported type first."


def type_to_json(kind: Type) -> Any:
    """Return the type as JSON values."""
    match kind:
        case Primitive(name):
            return name
        case Decimal(precision, scale):
            return {"decimal": [precision, scale]}
        case Struct(fields):
            return {"struct": [field_to_json(f) for f in fields]}
        case ListOf(element):
            return {"list": field_to_json(element)}
        case MapOf(key, value):
            return {"map": [field_to_json(key), field_to_json(value)]}


def type_from_json(source: Any) -> Type:
    """Return the type for the values of `type_to_json`."""
    if isinstance(source, str):
        return Primitive(source)
    ((kind, parts),) = source.items()
    match kind:
        case "decimal":
            return Decimal(*parts)
        case "struct":
            return Struct(tuple(field_from_json(f) for f in parts))
        case "list":
            return ListOf(field_from_json(parts))
        case _:
            return MapOf(field_from_json(parts[0]), field_from_json(parts[1]))


def field_to_json(source: Field) -> dict[str, Any]:
    """Return the field as JSON values, without defaults."""
    out: dict[str, Any] = {
        "id": source.id,
        "name": source.name,
        "type": type_to_json(source.type),
    }
    if not source.nullable:
        out["required"] = True
    if source.comment is not None:
        out["comment"] = source.comment
    if source.default is not None:
        out["default"] = source.default
    if source.indexed:
        out["indexed"] = True
    if source.metadata:
        out["metadata"] = source.metadata
    if source.optional:
        out["optional"] = True
    return out


def field_from_json(source: dict[str, Any]) -> Field:
    """Return the field for the values of `field_to_json`."""
    return Field(
        id=source["id"],
        name=source["name"],
        type=type_from_json(source["type"]),
        nullable=not source.get("required", False),
        comment=source.get("comment"),
        default=source.get("default"),
        indexed=source.get("indexed", False),
        metadata=source.get("metadata", {}),
        optional=source.get("optional", False),
    )
