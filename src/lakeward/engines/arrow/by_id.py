"""The columns of a Parquet file as columns of a table, found by field ids at every depth.

A file keeps the names and types that its columns had when it was written. The ids in its footer say
which columns of the table they are: since then these may have been renamed, widened or moved. A
file without any ids is read by names.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.errors import CorruptTable
from lakeward.model.schema import Schema
from lakeward.model.types import (
    Field,
    ListOf,
    MapOf,
    Struct,
    Type,
    arrow_field,
    arrow_type,
    file_id,
)
from lakeward.model.values import from_neutral

FIELD_ID: Final = b"PARQUET:field_id"

Names: TypeAlias = Mapping[tuple[str, ...], int]
"""Field ids by the path of names that leads to a field: `element`, `key` and `value` are names."""
Convert: TypeAlias = Callable[[pa.Array], pa.Array]


class Hints(Protocol):
    """What a table's metadata says of columns beyond its schema; asked for only where needed."""

    @property
    def names(self) -> Names | None:
        """The ids of columns in files without ids; None where nothing is said of them."""

    @property
    def defaults(self) -> Mapping[int, Any]:
        """By field id, the value of a column in files that lack it, in the neutral spelling."""


class OwnNames:
    """Hints of a schema alone: in files without ids a column goes by the schema's name."""

    defaults: Final[Mapping[int, Any]] = {}

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    @cached_property
    def names(self) -> Names | None:
        """The ids in the schema, by names."""
        return dict(_paths([arrow_field(f) for f in self._schema], ()))


@dataclass(frozen=True, slots=True)
class FileColumn:
    """A column of the table as one file has it, under the name `source`, or lacks it (None).

    It `is_plain` if the file has it under its own name and in its own shape. `convert` makes the
    table's column of the file's column, or of any array as long where the file lacks it.
    """

    field: Field
    source: str | None
    is_plain: bool
    convert: Convert


class FileShape:
    """How files that have one Parquet schema hold the columns of the table."""

    def __init__(self, physical: pa.Schema, schema: Schema, hints: Hints) -> None:
        self.physical = physical
        self._hints = hints
        self._given: dict[int | None, pa.Field] = {
            number: found
            for found in self._identified(schema)
            if (number := field_id(found)) is not None
        }
        self._names = frozenset(physical.names)
        self._known: dict[int, FileColumn] = {}

    def column(self, wanted: Field) -> FileColumn:
        """Where the file has a column of the table, and how it is converted."""
        if wanted.id not in self._known:
            self._known[wanted.id] = self._column(wanted)
        return self._known[wanted.id]

    def find(self, number: int) -> tuple[str, ...] | None:
        """The path of names by which the file has a field; None where it has none of the id."""
        return next((path for path, i in _paths(self._given.values(), ()) if i == number), None)

    def _column(self, wanted: Field) -> FileColumn:
        given = self._given.get(file_id(wanted))
        if given is None:
            default = self._hints.defaults.get(wanted.id)
            # Arrow gives null for a column that a file has not.
            plain = default is None and wanted.name not in self._names
            return FileColumn(wanted, None, plain, partial(_filled, wanted=wanted, value=default))
        plain = given.name == wanted.name and _is_alike(given.type, wanted.type)
        defaults = {} if plain else self._defaults_below(given, wanted)
        convert = partial(converted, given=given.type, wanted=wanted.type, defaults=defaults)
        return FileColumn(wanted, given.name, plain, convert)

    def _defaults_below(self, given: pa.Field, wanted: Field) -> Mapping[int, Any]:
        """Defaults, where the file lacks a part of a column."""
        has = {i for _, i in _paths([given], ())}
        lacks = any(i not in has for _, i in _paths([arrow_field(wanted)], ()))
        return self._hints.defaults if lacks else {}

    def _identified(self, schema: Schema) -> Sequence[pa.Field]:
        """The file's columns with ids: its own, or those looked up by names."""
        if any(_has_ids(f) for f in self.physical):
            return list(self.physical)
        names = self._hints.names
        if names is None:
            names = dict(_paths([arrow_field(f) for f in schema], ()))
            self._check_names(names)
        return [_numbered(f, (f.name,), names) for f in self.physical]

    def _check_names(self, names: Names) -> None:
        """Refuse to guess what a column is that has neither an id nor a name of the table's."""
        unknown = next((n for n in self.physical.names if (n,) not in names), None)
        if unknown is not None:
            what = f"A data file without field ids has the column {unknown!r}, which nothing maps."
            hint = "Set the table property schema.name-mapping.default with the engine in use."
            raise CorruptTable(what, hint=hint, column=unknown)


def field_id(source: pa.Field) -> int | None:
    """The field id of a column of a file."""
    number = (source.metadata or {}).get(FIELD_ID)
    return None if number is None else int(number)


def converted(
    values: pa.Array, given: pa.DataType, wanted: Type, defaults: Mapping[int, Any]
) -> pa.Array:
    """Convert values of a file to a type of the table; nulls stay null at every depth.

    `given` is the file's type with the field ids of its parts; `defaults`, by field id, fill parts
    that the file lacks.
    """
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    make = partial(_part, defaults=defaults)
    match wanted:
        case Struct(parts):
            found = {field_id(f): (values.field(i), f) for i, f in enumerate(given)}
            children = [
                _filled(values, wanted=p, value=defaults.get(p.id))
                if file_id(p) not in found
                else make(*found[file_id(p)], p)
                for p in parts
            ]
            fields = [arrow_field(p) for p in parts]
            return pa.StructArray.from_arrays(children, fields=fields, mask=values.is_null())
        case ListOf(element):
            inner = make(values.values, given.value_field, element)
            return pa.ListArray.from_arrays(
                _offsets(values), inner, type=arrow_type(wanted), mask=values.is_null()
            )
        case MapOf(key, value):
            keys = make(values.keys, given.key_field, key)
            items = make(values.items, given.item_field, value)
            return pa.MapArray.from_arrays(
                _offsets(values), keys, items, arrow_type(wanted), None, values.is_null()
            )
        case _:
            return _cast(values, arrow_type(wanted))


def _part(
    values: pa.Array, given: pa.Field, wanted: Field, *, defaults: Mapping[int, Any]
) -> pa.Array:
    return converted(values, given.type, wanted.type, defaults)


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_fixed_size_binary(values.type) and pa.types.is_string(kind):
        texts = [None if v is None else str(uuid.UUID(bytes=v)) for v in values.to_pylist()]
        return pa.array(texts, kind)
    # Files may hold finer moments than the table: Spark's old format has nanoseconds.
    return values if values.type == kind else values.cast(kind, safe=not _is_moment(kind))


def _is_moment(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind))


def _filled(beside: pa.Array, *, wanted: Field, value: Any) -> pa.Array:
    """One value, or nulls, for every row."""
    kind = arrow_type(wanted.type)
    if value is None:
        return pa.nulls(len(beside), kind)
    return pa.repeat(pa.scalar(from_neutral(wanted.type, value), kind), len(beside))


def _offsets(values: Any) -> pa.Array:
    """The offsets of lists or maps as an array of its own, which a mask may go with."""
    offsets = values.offsets.cast(pa.int32())
    return pc.add(offsets, pa.scalar(0, pa.int32())) if offsets.offset else offsets


def _has_ids(source: pa.Field) -> bool:
    return field_id(source) is not None or any(_has_ids(f) for _, f in _parts(source.type))


def _parts(kind: pa.DataType) -> Iterator[tuple[str, pa.Field]]:
    """The fields that a nested type is made of, each with the name that Iceberg has for it."""
    types = pa.types
    if types.is_struct(kind):
        yield from ((f.name, f) for f in kind)
    elif types.is_map(kind):
        yield "key", kind.key_field
        yield "value", kind.item_field
    elif types.is_list(kind) or types.is_large_list(kind):
        yield "element", kind.value_field


def _paths(
    fields: Any, path: tuple[str, ...], *, named: bool = True
) -> Iterator[tuple[tuple[str, ...], int]]:
    """Every field below with an id, by the path that leads to it."""
    for found in fields:
        name, part = (found.name, found) if named else found
        number = field_id(part)
        if number is not None:
            yield (*path, name), number
        yield from _paths(_parts(part.type), (*path, name), named=False)


def _numbered(source: pa.Field, path: tuple[str, ...], names: Names) -> pa.Field:
    """A field whose id, and those of its parts, are looked up by names."""
    number = names.get(path)
    metadata = None if number is None else {FIELD_ID: str(number).encode()}
    kind, types = source.type, pa.types
    parts = [_numbered(f, (*path, n), names) for n, f in _parts(kind)]
    if types.is_struct(kind):
        kind = pa.struct(parts)
    elif types.is_map(kind):
        kind = pa.map_(parts[0].with_nullable(False), parts[1])
    elif parts:
        kind = pa.large_list(parts[0]) if types.is_large_list(kind) else pa.list_(parts[0])
    return pa.field(source.name, kind, source.nullable, metadata)


def _is_alike(given: pa.DataType, wanted: Type) -> bool:
    """Whether Arrow's own reading gives the values: the same parts in the same order and types."""
    if pa.types.is_dictionary(given):
        given = given.value_type
    match wanted:
        case Struct(parts):
            return (
                pa.types.is_struct(given)
                and given.num_fields == len(parts)
                and all(_is_same(f, p) for f, p in zip(given, parts, strict=True))
            )
        case ListOf(element):
            return pa.types.is_list(given) and _is_alike(given.value_type, element.type)
        case MapOf(key, value):
            return (
                pa.types.is_map(given)
                and _is_alike(given.key_type, key.type)
                and _is_alike(given.item_type, value.type)
            )
        case _:
            kind = arrow_type(wanted)
            if _is_moment(kind):
                return bool(given == pa.timestamp("ns" if kind.unit == "ns" else "us", kind.tz))
            return bool(_LARGE.get(given, given) == kind)


def _is_same(given: pa.Field, wanted: Field) -> bool:
    same = given.name == wanted.name and field_id(given) == file_id(wanted)
    return same and _is_alike(given.type, wanted.type)


_LARGE: Final = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
