"""Cuts batches into slices whose rows are written out, each of bounded size.

A dictionary, a run or a view has a value once that many rows have. If all rows of a batch are
written out at once, its size has no bound; of a slice it has one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.engines.arrow.nested import plain
from lakeward.engines.arrow.too_large import TooLarge

SLICE_BYTES: Final = 16 << 20
"""The most bytes of a slice that has more than one row."""
ROW_BYTES: Final = 64 << 20
"""The most bytes of a row whose values were not written out."""
SLICE_ROWS: Final = 1 << 17
"""The most rows of a slice: a table may have many columns that the batch lacks."""
_HOLLOW_BYTES: Final = 16
"""What a value without bytes counts: in the table it may be a null of a type that has bytes."""


def written_out(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch in slices, with all values written out.

    A slice for which the process has not enough memory is cut into smaller ones.

    Raises:
        TooLarge: A row has more than `ROW_BYTES`.
        MemoryError: There is not enough memory for one row.
    """
    schema = plain_schema(batch.schema)
    start, rows = 0, SLICE_ROWS
    while start < batch.num_rows:
        try:
            some = _converted(batch.slice(start, rows), schema)
        except MemoryError:
            if rows == 1:
                raise
            rows = max(1, rows // 8)
            continue
        for part in slices(some):
            if weight(part) > ROW_BYTES:
                what = f"A row of the body has more than {ROW_BYTES:,} bytes in memory."
                hint = "Send such rows as an Arrow IPC stream without compression and dictionaries."
                raise TooLarge(what, hint=hint)
            yield part
        start += some.num_rows


def slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch in slices without copying, each of bounded size or of one row."""
    if batch.num_rows <= 1 or (batch.num_rows <= SLICE_ROWS and weight(batch) <= SLICE_BYTES):
        yield batch
        return
    size = SLICE_ROWS if batch.num_rows > SLICE_ROWS else (batch.num_rows + 1) // 2
    for start in range(0, batch.num_rows, size):
        yield from slices(batch.slice(start, size))


def weight(batch: pa.RecordBatch) -> int:
    """Return the size of a batch in memory; values that have no bytes count as some."""
    hollow = sum(_hollow(column) for column in batch.columns if _may_be_hollow(column.type))
    if not batch.num_columns:
        hollow = batch.num_rows
    return int(batch.nbytes + hollow * _HOLLOW_BYTES)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of a batch whose values are written out."""
    fields = [field.with_type(_plain(field.type)) for field in schema]
    return pa.schema(fields, metadata=schema.metadata)


def _plain(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return _plain(kind.value_type)
    if types.is_string_view(kind) or types.is_binary_view(kind):
        return pa.string() if types.is_string_view(kind) else pa.binary()
    if types.is_list(kind) or types.is_list_view(kind):
        return pa.list_(_plain_field(kind.value_field))
    if types.is_large_list(kind) or types.is_large_list_view(kind):
        return pa.large_list(_plain_field(kind.value_field))
    if types.is_fixed_size_list(kind):
        return pa.list_(_plain_field(kind.value_field), kind.list_size)
    if types.is_map(kind):
        key, item = _plain_field(kind.key_field), _plain_field(kind.item_field)
        return pa.map_(key, item, kind.keys_sorted)
    if types.is_struct(kind):
        return pa.struct([_plain_field(kind.field(n)) for n in range(kind.num_fields)])
    return kind


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(_plain(field.type))


def _converted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if batch.schema.equals(schema):
        return batch
    columns = []
    for column, field in zip(batch.columns, schema, strict=True):
        given = column
        while pa.types.is_run_end_encoded(given.type):
            given = pc.run_end_decode(given)
        if not given.type.equals(field.type):
            # Arrow casts list views inside of others, and those of slices, to broken lists.
            given = plain(pa.chunked_array([given])).chunk(0)
        columns.append(given if given.type.equals(field.type) else given.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _is_hollow(kind: pa.DataType) -> bool:
    """Return whether the values of a type have no bytes."""
    types = pa.types
    return bool(
        types.is_null(kind)
        or (types.is_struct(kind) and not kind.num_fields)
        or (types.is_fixed_size_binary(kind) and not kind.byte_width)
        or (types.is_fixed_size_list(kind) and not kind.list_size)
    )


def _may_be_hollow(kind: pa.DataType) -> bool:
    """Return whether a type, or a part of it, has values without bytes."""
    if _is_hollow(kind):
        return True
    return any(_may_be_hollow(kind.field(n).type) for n in range(kind.num_fields))


def _hollow(array: pa.Array) -> int:
    """Return the number of values without bytes in an array."""
    kind, types = array.type, pa.types
    if _is_hollow(kind):
        return len(array)
    if not _may_be_hollow(kind):
        return 0
    if types.is_struct(kind):
        return sum(_hollow(array.field(n)) for n in range(kind.num_fields))
    if types.is_fixed_size_list(kind):
        return _hollow(array.flatten())
    if types.is_list(kind) or types.is_large_list(kind) or types.is_map(kind):
        first, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
        return _hollow(array.values.slice(first, end - first))
    return 0
