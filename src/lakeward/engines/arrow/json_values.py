"""Types that Arrow's JSON reader can read, and the conversion of such values to a table's types."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.engines.arrow.json_maps import KEY, VALUE


def readable(kind: pa.DataType) -> pa.DataType:
    """Return a type that Arrow can read from JSON, and `converted` can convert to `kind`."""
    types = pa.types
    if types.is_date(kind):
        return pa.timestamp("s")
    if types.is_timestamp(kind) and kind.tz is None:
        # Read as a moment, text with a zone would be taken for the same wall clock in UTC.
        return pa.string()
    if types.is_struct(kind):
        return pa.struct([_field(f) for f in kind])
    if types.is_list(kind):
        return pa.list_(_field(kind.value_field))
    if types.is_map(kind):
        parts = [(KEY, readable(kind.key_type)), (VALUE, readable(kind.item_type))]
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
    lost = types.is_float32(kind) and pc.any(pc.is_inf(found)).as_py()
    cut = types.is_date(kind) and pc.any(pc.not_equal(found.cast(values.type), values)).as_py()
    if lost or cut:
        message = "a value would change"
        raise ValueError(message)
    return found


def _part(values: pa.Array, field: pa.Field, there: pa.Array | None = None) -> pa.Array:
    """Return a nested part as its type; it may lack values only if it is nullable."""
    missing = values.is_null() if there is None else pc.and_(values.is_null(), there)
    if not field.nullable and pc.any(missing).as_py():
        message = f"a required value of {field.name} is missing"
        raise ValueError(message)
    return converted(values, field.type)


def _field(source: Any) -> pa.Field:
    return source.with_type(readable(source.type)).with_nullable(True)
