"""Rebuilds columns whose layout Arrow cannot cast: dictionaries and views, also inside others.

Arrow casts a list with everything that its buffers hold, also outside the rows of a slice.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column without dictionaries and list views; values and nulls are the same."""
    if not _is_odd(column.type):
        return column
    chunks = [_plain(chunk) for chunk in column.chunks]
    return pa.chunked_array(chunks, _plain(pa.nulls(0, column.type)).type)


def compact(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column; if it is nested, copied, so that its buffers hold these rows alone."""
    if not pa.types.is_nested(column.type):
        return column
    return column.take(_every(column))


def is_list(kind: pa.DataType) -> bool:
    """Whether values of an Arrow type are lists, in any layout."""
    return bool(
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or pa.types.is_list_view(kind)
        or pa.types.is_large_list_view(kind)
    )


def _is_odd(kind: pa.DataType) -> bool:
    types = pa.types
    if types.is_dictionary(kind) or types.is_list_view(kind) or types.is_large_list_view(kind):
        return True
    if types.is_struct(kind):
        return any(_is_odd(part.type) for part in kind)
    if types.is_map(kind):
        return _is_odd(kind.key_type) or _is_odd(kind.item_type)
    return is_list(kind) and _is_odd(kind.value_type)


def _plain(array: pa.Array) -> pa.Array:
    kind = array.type
    if not _is_odd(kind):
        return array
    if pa.types.is_dictionary(kind):
        return _decoded(array)
    absent = array.is_null()
    if pa.types.is_struct(kind):
        parts = [_plain(array.field(number)) for number in range(kind.num_fields)]
        fields = [f.with_type(p.type) for f, p in zip(kind, parts, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=absent)
    if pa.types.is_map(kind):
        pairs = array.take(_every(array))
        keys, items = _plain(pairs.keys), _plain(pairs.items)
        return pa.MapArray.from_arrays(pairs.offsets, keys, items, mask=absent)
    lengths = pc.fill_null(array.value_lengths().cast(pa.int64()), 0)
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths)])
    return pa.LargeListArray.from_arrays(offsets, _plain(array.flatten()), mask=absent)


def _every(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return pa.array(range(len(array)), pa.int64())


def _decoded(array: pa.DictionaryArray) -> pa.Array:
    """Return the values; Arrow cannot decode dictionaries of views."""
    values = array.dictionary
    if pa.types.is_string_view(values.type):
        values = values.cast(pa.string())
    elif pa.types.is_binary_view(values.type):
        values = values.cast(pa.binary())
    return _plain(values.take(array.indices))
