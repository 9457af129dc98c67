"""Types that Arrow's JSON reader can read, and the conversion of such values to a table's types."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.engines.arrow.json_maps import KEY, VALUE


def readable(kind: pa.DataType, *, wide: bool = False) -> pa.DataType:
    """Return a type that Arrow can read from JSON, and `converted` can convert to `kind`.

    With `wide`, floats are read as doubles, which tells infinity from numbers that are too large.
    """
    types = pa.types
    if wide and types.is_float32(kind):
        return pa.float64()
    if types.is_date(kind):
        return pa.timestamp("s")
    if types.is_timestamp(kind) and kind.tz is None:
        # Read as a moment, text with a zone would be taken for the same wall clock in UTC.
        return pa.string()
    if types.is_struct(kind):
        return pa.struct([_field(f, wide=wide) for f in kind])
    if types.is_list(kind):
        return pa.list_(_field(kind.value_field, wide=wide))
    if types.is_map(kind):
        sides = ((KEY, kind.key_type), (VALUE, kind.item_type))
        parts = [(name, readable(side, wide=wide)) for name, side in sides]
        return pa.list_(pa.struct(parts))
    return kind


def converted(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values as a table's type; raise `ValueError` for one that would change."""
    types = pa.types
    if types.is_struct(kind):
        there = values.is_valid()
        parts = [_part(values.field(i), field, there) for i, field in enumerate(kind)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=values.is_null())
    if types.is_list(kind):
        elements = _part(values.values, kind.value_field)
        return pa.ListArray.from_arrays(values.offsets, elements, type=kind, mask=values.is_null())
    if types.is_map(kind):
        keys = converted(values.values.field(0), kind.key_type)
        items = _part(values.values.field(1), kind.item_field)
        return pa.MapArray.from_arrays(
            values.offsets, keys, items, type=kind, mask=values.is_null()
        )
    found = values.cast(kind)
    lost = types.is_float32(kind) and _has_grown(values, found)
    cut = types.is_date(kind) and pc.any(pc.not_equal(found.cast(values.type), values)).as_py()
    if lost or cut:
        message = "a value would change"
        raise ValueError(message)
    return found


def _has_grown(values: pa.Array, found: pa.Array) -> bool:
    """Return whether a number became infinity; only doubles can be infinite themselves."""
    infinite = pc.is_inf(found)
    if pa.types.is_float64(values.type):
        infinite = pc.and_not(infinite, pc.is_inf(values))
    return pc.any(infinite).as_py() is True


def _part(values: pa.Array, field: pa.Field, there: pa.Array | None = None) -> pa.Array:
    """Return a nested part as its type; it may lack values only if it is nullable."""
    missing = values.is_null() if there is None else pc.and_(values.is_null(), there)
    if not field.nullable and pc.any(missing).as_py():
        message = f"a required value of {field.name} is missing"
        raise ValueError(message)
    return converted(values, field.type)


def _field(source: Any, *, wide: bool) -> pa.Field:
    return source.with_type(readable(source.type, wide=wide)).with_nullable(True)
