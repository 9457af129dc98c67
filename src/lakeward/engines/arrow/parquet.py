"""Parquet files from Arrow tables, with what their footers say of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.engines.arrow.encoding import settings
from lakeward.engines.arrow.nan import Columns
from lakeward.model.clock import now_ms
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile, FileStats
from lakeward.model.schema import Schema
from lakeward.model.types import Decimal, Field
from lakeward.model.values import Value, to_neutral

STRING_BOUND: Final = 32
"""Longer strings are cut in statistics, upper bounds to something greater."""
_LAST_CHARACTER: Final = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class ParquetOptions:
    """How files are written.

    Attributes:
        compression: A codec that Parquet knows.
        target_file_size: Bytes in memory after which a new file is begun.
        row_group_rows: Rows per row group.
    """

    compression: str = "snappy"
    target_file_size: int = 128 * 2**20
    row_group_rows: int = 1_048_576


def encode(
    data: pa.Table,
    definition: Definition,
    partition: Mapping[int, Value],
    path: str,
    options: ParquetOptions,
) -> tuple[pa.Buffer, DataFile]:
    """A Parquet file in memory, and its entry for the log."""
    schema = definition.schema
    columns = _columns(schema, () if definition.whole_files else definition.partition_by)
    stored = columns.schema
    if not data.schema.equals(stored, check_metadata=False):
        data = data.cast(stored)
    unordered = columns.with_nan(data)
    sink = pa.BufferOutputStream()
    writer = pq.ParquetWriter(
        sink,
        stored,
        compression=options.compression,
        write_statistics=columns.with_statistics(unordered),
        store_schema=False,
        **settings(data),
    )
    writer.write_table(data, row_group_size=options.row_group_rows)
    writer.close()
    buffer = sink.getvalue()
    stats = footer_stats(writer.writer.metadata, schema, positions=columns.positions)
    if unordered:
        counts = {schema.by_name[name].id: data.column(name).null_count for name in unordered}
        stats = replace(stats, nulls={**stats.nulls, **counts})
    entry = DataFile(
        path=path,
        size=buffer.size,
        rows=data.num_rows,
        modified_ms=now_ms(),
        partition=partition,
        stats=stats,
    )
    return buffer, entry


def stored_field_type(field: Field) -> pa.DataType:
    """The type that a top-level column has inside files: microseconds at the most coarse."""
    return _columns(Schema((field,), field.id), ()).schema.field(0).type


def footer_stats(
    metadata: pq.FileMetaData,
    schema: Schema,
    without_bounds: frozenset[int] = frozenset(),
    positions: Mapping[str, int] | None = None,
) -> FileStats:
    """Outer bounds and null counts of the indexed columns, from a file's footer.

    Args:
        metadata: The footer.
        schema: The table's.
        without_bounds: Fields whose bounds would mislead readers (floats with NaN).
        positions: Of the file's columns by their paths; found in the footer without.
    """
    if positions is None:
        columns = metadata.schema
        positions = {columns.column(i).path: i for i in range(metadata.num_columns)}
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    minimum: dict[int, Value] = {}
    maximum: dict[int, Value] = {}
    nulls: dict[int, int] = {}
    for field in schema.indexed:
        position = positions.get(field.name)
        if position is None:
            continue
        told = _told([g.column(position).statistics for g in groups])
        if told is None:
            continue
        nulls[field.id], low, high = told
        if low is None or field.id in without_bounds:
            continue
        bounds = _outer(field, low, high)
        if bounds is not None:
            minimum[field.id], maximum[field.id] = bounds
    return FileStats(minimum, maximum, nulls)


@lru_cache(maxsize=256)
def _columns(schema: Schema, partition_by: tuple[int, ...]) -> Columns:
    kept = [
        pa.field(f.name, _stored_type(f.type), f.nullable, f.metadata)
        for field, f in zip(schema.fields, schema.arrow, strict=True)
        if field.id not in partition_by
    ]
    return Columns(pa.schema(kept))


def _stored_type(source: pa.DataType) -> pa.DataType:
    """Delta and Iceberg know microseconds only; other types are stored as they are."""
    types = pa.types
    if types.is_timestamp(source) and source.unit != "ns":
        return pa.timestamp("us", source.tz)
    if types.is_struct(source):
        return pa.struct([_stored_field(f) for f in source])
    if types.is_list(source):
        return pa.list_(_stored_field(source.value_field))
    if types.is_map(source):
        return pa.map_(_stored_field(source.key_field), _stored_field(source.item_field))
    return source


def _stored_field(source: pa.Field) -> pa.Field:
    return pa.field(source.name, _stored_type(source.type), source.nullable, source.metadata)


def _told(parts: Sequence[pq.Statistics | None]) -> tuple[int, Any, Any] | None:
    """Nulls and bounds over all row groups; no bounds where one with values tells none."""
    nulls, low, high, is_bounded = 0, None, None, True
    for part in parts:
        if part is None or not part.has_null_count:
            return None
        nulls += part.null_count
        if not part.has_min_max:
            is_bounded = is_bounded and not part.num_values
            continue
        try:
            least, most = part.min, part.max
        except (OverflowError, ValueError):
            # Arrow holds moments that Python's calendar, and Delta's text, do not reach.
            is_bounded = False
            continue
        low = least if low is None or least < low else low
        high = most if high is None or most > high else high
    return (nulls, low, high) if is_bounded else (nulls, None, None)


def _outer(field: Field, low: Any, high: Any) -> tuple[Value, Value] | None:
    if isinstance(low, float) and not (math.isfinite(low) and math.isfinite(high)):
        return None
    if isinstance(low, str):
        if len(low) > STRING_BOUND:
            low = low[:STRING_BOUND]
        return low, _above(high)
    if isinstance(field.type, Decimal):
        return f"{low:f}", f"{high:f}"
    return to_neutral(field.type, low), to_neutral(field.type, high)


def _above(text: str) -> str:
    """The text itself, or something short that no text with its beginning exceeds."""
    end = STRING_BOUND
    while text[end : end + 1] == _LAST_CHARACTER:
        end += 1
    return text if len(text) <= end else text[:end] + _LAST_CHARACTER
