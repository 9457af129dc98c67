"""Finds the columns of a table in a Parquet file by field ids, at every depth, and converts them.

A file has the names and types that its columns had when it was written. The ids in its footer tell
which columns of the table they are: these may have been renamed, widened or moved since. Columns of
a file without any ids are found by names.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.engines.arrow.values import arrow_value
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

FIELD_ID: Final = b"PARQUET:field_id"

Names: TypeAlias = Mapping[tuple[str, ...], int]
"""Field ids by the path of names to a field: `element`, `key` and `value` are names, too."""
Convert: TypeAlias = Callable[[pa.Array], pa.Array]


class Hints(Protocol):
    """What a table's metadata says about columns beyond its schema; read only if needed."""

    @property
    def names(self) -> Names | None:
        """The ids of columns in files without ids; None if the metadata has no such mapping."""

    @property
    def defaults(self) -> Mapping[int, Any]:
        """By field id, the neutral value of a column in files that lack the column."""


class OwnNames:
    """Hints from a schema alone: columns of files without ids are found by the schema's names."""

    defaults: Final[Mapping[int, Any]] = {}

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    @cached_property
    def names(self) -> Names | None:
        """The ids in the schema, by paths of names."""
        return dict(_paths([arrow_field(f) for f in self._schema], ()))


@dataclass(frozen=True, slots=True)
class FileColumn:
    """A column of the table in one file: its name there, `source`, or None if the file lacks it.

    `is_plain` if the file has the column under the table's name and in the table's type. `convert`
    converts the file's column to the table's; if the file lacks the column, it takes any array of
    the same length.
    """

    field: Field
    source: str | None
    is_plain: bool
    convert: Convert


class FileShape:
    """How files with one Parquet schema store the columns of the table."""

    def __init__(self, physical: pa.Schema, schema: Schema, hints: Hints) -> None:
        self.physical = physical
        self._hints = hints
        self._given: dict[int, pa.Field] = {
            number: found
            for found in self._identified(schema)
            if (number := field_id(found)) is not None
        }
        self._named = {f.name: f for f in physical}
        self._known: dict[int, FileColumn] = {}

    def column(self, wanted: Field) -> FileColumn:
        """Return where the file has a column of the table, and how to convert it."""
        if wanted.id not in self._known:
            self._known[wanted.id] = self._column(wanted)
        return self._known[wanted.id]

    def find(self, number: int) -> tuple[str, ...] | None:
        """Return the path of names of a field in the file, by its id; None if the file lacks it."""
        return next((path for path, i in _paths(self._given.values(), ()) if i == number), None)

    def _column(self, wanted: Field) -> FileColumn:
        number = file_id(wanted)
        # A hidden column has no id in files of a Delta table, but a name that no other column has.
        given = self._named.get(wanted.name) if number is None else self._given.get(number)
        if given is None:
            default = self._hints.defaults.get(wanted.id)
            # Arrow gives null for a column that a file has not.
            plain = default is None and wanted.name not in self._named
            return FileColumn(wanted, None, plain, partial(_filled, wanted=wanted, value=default))
        plain = given.name == wanted.name and _is_alike(given.type, wanted.type)
        defaults = {} if plain else self._defaults_below(given, wanted)
        convert = partial(converted, given=given.type, wanted=wanted.type, defaults=defaults)
        return FileColumn(wanted, given.name, plain, convert)

    def _defaults_below(self, given: pa.Field, wanted: Field) -> Mapping[int, Any]:
        """Return the defaults if the file lacks a nested part of a column; else none."""
        has = {i for _, i in _paths([given], ())}
        lacks = any(i not in has for _, i in _paths([arrow_field(wanted)], ()))
        return self._hints.defaults if lacks else {}

    def _identified(self, schema: Schema) -> Sequence[pa.Field]:
        """Return the file's columns with ids: those in the file, or those looked up by names."""
        if any(_has_ids(f) for f in self.physical):
            return list(self.physical)
        names = self._hints.names
        if names is None:
            names = dict(_paths([arrow_field(f) for f in schema], ()))
            self._check_names(names)
        return [_numbered(f, (f.name,), names) for f in self.physical]

    def _check_names(self, names: Names) -> None:
        """Raise `CorruptTable` for a column that has neither an id nor a name in the table."""
        unknown = next((n for n in self.physical.names if (n,) not in names), None)
        if unknown is not None:
            what = f"A data file without field ids has the column {unknown!r}, which nothing maps."
            hint = "Set the table property schema.name-mapping.default with the engine in use."
            raise CorruptTable(what, hint=hint, column=unknown)


def field_id(source: pa.Field) -> int | None:
    """Return the field id of a column of a file; None if it has none."""
    number = (source.metadata or {}).get(FIELD_ID)
    return None if number is None else int(number)


def converted(
    values: pa.Array, given: pa.DataType, wanted: Type, defaults: Mapping[int, Any]
) -> pa.Array:
    """Convert values of a file to a type of the table; nulls remain null at every depth.

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
    """Return one value, or nulls, for every row."""
    kind = arrow_type(wanted.type)
    if value is None:
        return pa.nulls(len(beside), kind)
    return pa.repeat(arrow_value(wanted.type, value), len(beside))


def _offsets(values: Any) -> pa.Array:
    """Return the offsets of lists or maps; not as a slice, which Arrow refuses beside a mask."""
    offsets = values.offsets.cast(pa.int32())
    return pc.add(offsets, pa.scalar(0, pa.int32())) if offsets.offset else offsets


def _has_ids(source: pa.Field) -> bool:
    return field_id(source) is not None or any(_has_ids(f) for _, f in _parts(source.type))


def _parts(kind: pa.DataType) -> Iterator[tuple[str, pa.Field]]:
    """Yield the fields of a nested type, each with the name that Iceberg uses for it."""
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
    """Yield the path and the id of every field with an id, nested ones too."""
    for found in fields:
        name, part = (found.name, found) if named else found
        number = field_id(part)
        if number is not None:
            yield (*path, name), number
        yield from _paths(_parts(part.type), (*path, name), named=False)


def _numbered(source: pa.Field, path: tuple[str, ...], names: Names) -> pa.Field:
    """Return a field with its id, and those of its nested fields, looked up by names."""
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
    """Whether Arrow reads the values unconverted: the same parts in the same order and types."""
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
