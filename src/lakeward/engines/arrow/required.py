"""Required columns, and required parts of nested ones: a missing value is found wherever it is."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.errors import ConstraintViolation
from lakeward.model.types import Field, ListOf, MapOf, Struct, Type

_SAMPLE: Final = 5


def check_required(field: Field, column: pa.ChunkedArray, table: str) -> None:
    """Pass when no value is missing that the field, or a part of it, requires.

    A part is required only where the value that it is a part of is there.

    Raises:
        ConstraintViolation: Names the part, counts the missing values and tells some of their rows.
    """
    if not field.nullable and column.null_count:
        raise _violation(field.name, column, _rows(len(column)), table)
    if isinstance(field.type, Struct | ListOf | MapOf) and _demands(field.type) and len(column):
        values = column.combine_chunks()
        _check_parts(field.type, field.name, values, _rows(len(values)), table)


def nullable(source: pa.DataType) -> pa.DataType:
    """The type with every part nullable."""
    types = pa.types
    if types.is_struct(source):
        return pa.struct([_nullable_field(f) for f in source])
    if types.is_list(source):
        return pa.list_(_nullable_field(source.value_field))
    if types.is_map(source):
        return pa.map_(source.key_field, _nullable_field(source.item_field))
    return source


def _nullable_field(source: pa.Field) -> pa.Field:
    return pa.field(source.name, nullable(source.type), nullable=True, metadata=source.metadata)


def _demands(kind: Type) -> bool:
    """Whether a part of the type is required."""
    return any(not part.nullable or _demands(part.type) for part in _parts(kind))


def _parts(kind: Type) -> tuple[Field, ...]:
    match kind:
        case Struct(fields):
            return fields
        case ListOf(element):
            return (element,)
        case MapOf(_, value):
            # Arrow itself has no map with a missing key.
            return (value,)
        case _:
            return ()


def _check_parts(kind: Type, path: str, values: pa.Array, rows: pa.Array, table: str) -> None:
    """Check the parts of values; `rows` tells for each value which row of the data it is in."""
    match kind:
        case Struct(fields):
            there = values.is_valid()
            values, rows = values.filter(there), rows.filter(there)
            for part in fields:
                _check(part, f"{path}.{part.name}", pc.struct_field(values, part.name), rows, table)
        case ListOf(element):
            _check(element, f"{path}.{element.name}", *_flat(values, rows), table)
        case MapOf(_, value):
            entries, of_row = _flat(values.cast(_as_list(values.type)), rows)
            inner = pc.struct_field(entries, "value")
            _check(value, f"{path}.{value.name}", inner, of_row, table)
        case _:
            pass


def _check(part: Field, path: str, values: pa.Array, rows: pa.Array, table: str) -> None:
    if not part.nullable and values.null_count:
        raise _violation(path, values, rows, table)
    if _demands(part.type):
        _check_parts(part.type, path, values, rows, table)


def _flat(lists: pa.Array, rows: pa.Array) -> tuple[pa.Array, pa.Array]:
    return pc.list_flatten(lists), rows.take(pc.list_parent_indices(lists))


def _as_list(kind: pa.MapType) -> pa.DataType:
    """A map's entries as a list, because Arrow's functions on lists take no maps."""
    entry = pa.struct([pa.field("key", kind.key_type), pa.field("value", nullable(kind.item_type))])
    return pa.list_(pa.field("entries", entry))


def _rows(count: int) -> pa.Array:
    return pa.array(range(count), pa.int64())


def _violation(path: str, values: pa.Array, rows: pa.Array, table: str) -> ConstraintViolation:
    count = values.null_count
    missing = "1 value is" if count == 1 else f"{count} values are"
    what = f"Column {path} of {table} is required, and {missing} missing."
    where = rows.filter(values.is_null()).slice(0, _SAMPLE).to_pylist()
    return ConstraintViolation(
        what,
        hint="Nothing was written.",
        table=table,
        constraint=f"{path} is not null",
        column=path,
        count=count,
        sample=[{"row": row} for row in where],
    )
