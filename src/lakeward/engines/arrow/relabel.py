"""Renames columns and nested fields of rows without copying values."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa


def relabelled_rows(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows with the names of a schema whose types are equal except for names."""
    columns = [_column(c, f.type) for c, f in zip(rows.columns, schema, strict=True)]
    return pa.Table.from_arrays(columns, schema=schema)


def relabelled(source: pa.RecordBatchReader, schema: pa.Schema) -> pa.RecordBatchReader:
    """Return a stream of rows with the names of a schema whose types are equal except for names."""

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in source:
            if not batch.num_columns:
                yield batch
                continue
            columns = [_relabelled(c, f.type) for c, f in zip(batch.columns, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _relabelled(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if not pa.types.is_nested(kind):
        return column
    if column.offset:
        column = pa.concat_arrays([column, column.slice(0, 0)])
    count, buffers = len(column), column.buffers()
    if pa.types.is_struct(kind):
        parts = [_relabelled(column.field(n), part.type) for n, part in enumerate(kind)]
        return pa.Array.from_buffers(kind, count, buffers[:1], children=parts)
    if pa.types.is_map(kind):
        pairs = [_relabelled(column.keys, kind.key_type), _relabelled(column.items, kind.item_type)]
        entries = pa.StructArray.from_arrays(pairs, fields=[kind.key_field, kind.item_field])
        return pa.Array.from_buffers(kind, count, buffers[:2], children=[entries])
    values = _relabelled(column.values, kind.value_type)
    return pa.Array.from_buffers(kind, count, buffers[:2], children=[values])


def _column(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if not pa.types.is_nested(kind):
        return column
    return pa.chunked_array([_relabelled(c, kind) for c in column.chunks], kind)
