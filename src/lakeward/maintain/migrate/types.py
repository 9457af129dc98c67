"""Chooses types for copied columns: of files that differ, and where tables lack a type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

_SIGNED: Final = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
}
_SMALL: Final = (pa.int8(), pa.int16())
_BYTES: Final = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)
_LISTS: Final = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)


def storable(schema: pa.Schema, *, has_small: bool) -> pa.Schema:
    """Return a schema in which every value of the types that tables lack has its place.

    Moments have microseconds; a value with nanoseconds is refused when it is written. Types without
    a wider one stay, and are refused when the table is defined.

    Args:
        schema: The columns of the source.
        has_small: Whether the format has integers of 8 and 16 bits.
    """
    return pa.schema([f.with_type(_type(f.type, has_small=has_small)) for f in schema])


def common(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return the type that has the values of two types of a column.

    Raises an error of Arrow if there is none; see `may_lose` for single values.
    """
    if one != other:
        # Nanoseconds end in the year 2262, and tables have microseconds anyway.
        one, other = _in_microseconds(one), _in_microseconds(other)
    for left, right in _leaves(one, other):
        is_rounded = pa.types.is_decimal(left) and pa.types.is_floating(right)
        is_rounded = is_rounded or (pa.types.is_floating(left) and pa.types.is_decimal(right))
        if is_rounded or _is_bytes(left) != _is_bytes(right):
            what = f"{left} and {right} have no common type."
            raise pa.ArrowTypeError(what)
    schemas = [pa.schema([("c", one)]), pa.schema([("c", other)])]
    return pa.unify_schemas(schemas, promote_options="permissive").field(0).type


def may_lose(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether some values of a type change, or do not fit, in the common type."""
    if kind == wanted:
        return False
    is_rounded = pa.types.is_integer(kind) and pa.types.is_floating(wanted)
    is_finer = pa.types.is_timestamp(kind) and kind.unit == "ns"
    return is_rounded or is_finer or pa.types.is_uint64(kind) or pa.types.is_nested(kind)


def _in_microseconds(kind: pa.DataType) -> pa.DataType:
    is_finer = pa.types.is_timestamp(kind) and kind.unit == "ns"
    return pa.timestamp("us", kind.tz) if is_finer else kind


def _leaves(one: pa.DataType, other: pa.DataType) -> Iterator[tuple[pa.DataType, pa.DataType]]:
    """Yield the types of single values in two types, as far as their structure is the same."""
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        for field in one:
            if other.get_field_index(field.name) >= 0:
                yield from _leaves(field.type, other.field(field.name).type)
    elif pa.types.is_map(one) and pa.types.is_map(other):
        yield from _leaves(one.key_type, other.key_type)
        yield from _leaves(one.item_type, other.item_type)
    elif _is_list(one) and _is_list(other):
        yield from _leaves(one.value_type, other.value_type)
    elif not pa.types.is_null(one) and not pa.types.is_null(other):
        yield one, other


def _is_list(kind: pa.DataType) -> bool:
    return any(test(kind) for test in _LISTS)


def _is_bytes(kind: pa.DataType) -> bool:
    return any(test(kind) for test in _BYTES)


def _type(kind: pa.DataType, *, has_small: bool) -> pa.DataType:
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return pa.timestamp("us", tz=kind.tz)
    signed = _SIGNED.get(kind, kind)
    return pa.int32() if signed in _SMALL and not has_small else signed
