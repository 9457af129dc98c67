"""Gives every NaN the same bits: DataFusion takes NaN with a sign for a value below all numbers.

`inf - inf` and `0 / 0` make such a NaN on x86.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc


def with_one_nan(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Return the rows with the same NaN everywhere in floats, also in those inside of columns."""
    floats = [n for n, field in enumerate(reader.schema) if has_floats(field.type)]
    if not floats:
        return reader

    def batches() -> Iterator[pa.RecordBatch]:
        with reader:
            for batch in reader:
                columns = list(batch.columns)
                for n in floats:
                    columns[n] = _one_nan(columns[n])
                yield pa.RecordBatch.from_arrays(columns, schema=reader.schema)

    return pa.RecordBatchReader.from_batches(reader.schema, batches())


def has_floats(kind: pa.DataType) -> bool:
    """Return whether values of a type are floats, or have floats inside."""
    if pa.types.is_floating(kind):
        return True
    return any(has_floats(kind.field(n).type) for n in range(kind.num_fields))


def _one_nan(values: pa.Array) -> pa.Array:
    """Return values with the same NaN everywhere; the same array if there is no NaN."""
    kind = values.type
    if not has_floats(kind):
        return values
    if pa.types.is_floating(kind):
        are_nan = pc.is_nan(values)
        if not pc.any(are_nan).as_py():
            return values
        return pc.if_else(are_nan, pa.scalar(math.nan, kind), values)
    first = 0
    if pa.types.is_struct(kind):
        given = [values.field(n) for n in range(kind.num_fields)]
    else:
        # Of a slice, the parts and the offsets are still those of the whole array.
        first, end = values.offsets[0].as_py(), values.offsets[-1].as_py()
        whole = [values.keys, values.items] if pa.types.is_map(kind) else [values.values]
        given = [part.slice(first, end - first) for part in whole]
    parts = [_one_nan(part) for part in given]
    if all(part is own for part, own in zip(parts, given, strict=True)):
        return values
    absent = values.is_null()
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=absent)
    made = pa.MapArray if pa.types.is_map(kind) else pa.ListArray
    offsets = pc.subtract(values.offsets, first)
    return made.from_arrays(offsets, *parts, type=kind, mask=absent)
