"""Converts rows of other engines to the types that Lakeward returns: no views, no dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa

MILLISECONDS: Final[Mapping[bytes, bytes]] = {b"lakeward:unit": b"ms"}
"""Metadata of a column of microseconds that are whole milliseconds of the table."""


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the plain type for a type: without views and dictionaries."""
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_binary_view(kind) or pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(kind.value_field.with_type(plain_type(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([f.with_type(plain_type(f.type)) for f in kind])
    return kind


def plain_reader(
    rows: pa.RecordBatchReader,
    failed: Callable[[Exception], Exception],
    names: Sequence[str] | None = None,
    *,
    restores_units: bool = False,
) -> pa.RecordBatchReader:
    """Return a reader with plain types; `failed` converts errors raised while reading.

    Columns keep their names unless others are given. With `restores_units`, columns that are
    marked with `MILLISECONDS` are in milliseconds.
    """
    fields = zip(names or rows.schema.names, rows.schema, strict=True)
    schema = pa.schema(
        [
            pa.field(name, _unit(f) if restores_units else plain_type(f.type), f.nullable)
            for name, f in fields
        ]
    )

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            for batch in rows:
                if batch.schema.equals(schema):
                    yield batch
                    continue
                arrays = [
                    column if column.type.equals(f.type) else column.cast(f.type)
                    for column, f in zip(batch.columns, schema, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        except Exception as error:
            raise failed(error) from error

    return pa.RecordBatchReader.from_batches(schema, batches())


def _unit(field: pa.Field) -> pa.DataType:
    kind = plain_type(field.type)
    is_marked = MILLISECONDS.items() <= (field.metadata or {}).items()
    if is_marked and pa.types.is_timestamp(kind) and kind.unit == "us":
        return pa.timestamp("ms", kind.tz)
    return kind
