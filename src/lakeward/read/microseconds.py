"""Gives engines timestamps of milliseconds as microseconds, as which files store them.

Engines cut a constant to the type of the column that it is compared with, so they would compare
`seen >= 00:00:00.123456` with .123. The log has microseconds for both types.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from lakeward.engines.arrow.plain_types import MILLISECONDS
from lakeward.model.schema import Schema
from lakeward.model.types import Field, ListOf, MapOf, Primitive, Struct, Type

_FINER = {
    Primitive("timestamp_ms"): Primitive("timestamp"),
    Primitive("timestamp_ms_ntz"): Primitive("timestamp_ntz"),
}


def in_microseconds(schema: Schema) -> Schema:
    """Return the schema with microseconds for milliseconds, also inside of nested columns."""
    fields = tuple(_field(field) for field in schema.fields)
    return schema if fields == schema.fields else Schema(fields, schema.last_id)


def marked(finer: Schema, schema: Schema) -> pa.Schema:
    """Return the Arrow schema of `finer`, with marks where `schema` has milliseconds."""
    return pa.schema(
        [
            arrow.with_metadata({**(arrow.metadata or {}), **MILLISECONDS})
            if own.type in _FINER
            else arrow
            for arrow, own in zip(finer.to_arrow(), schema.fields, strict=True)
        ]
    )


def cast_rows(rows: pa.RecordBatchReader, schema: pa.Schema) -> pa.RecordBatchReader:
    """Return the rows with the types of the schema, which has all their columns."""
    wanted = pa.schema([schema.field(name) for name in rows.schema.names])

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in rows:
            columns = zip(batch.columns, wanted, strict=True)
            yield pa.RecordBatch.from_arrays([c.cast(f.type) for c, f in columns], schema=wanted)

    return pa.RecordBatchReader.from_batches(wanted, batches())


def _field(field: Field) -> Field:
    kind = _type(field.type)
    return field if kind == field.type else replace(field, type=kind)


def _type(kind: Type) -> Type:
    match kind:
        case Primitive():
            return _FINER.get(kind, kind)
        case Struct(fields):
            return Struct(tuple(_field(f) for f in fields))
        case ListOf(element):
            return ListOf(_field(element))
        case MapOf(key, value):
            return MapOf(_field(key), _field(value))
    return kind
