"""Writes Parquet files from Arrow tables, and reads statistics from footers."""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, Final, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeward.engines.arrow.leaves import leaf_positions, positions_in_file
from lakeward.model.clock import now_ms
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile, FileStats
from lakeward.model.schema import Schema
from lakeward.model.types import Decimal, Field, stored_type
from lakeward.model.values import Value, to_neutral

STRING_BOUND: Final = 32
"""Bounds of strings in statistics are truncated to this length, upper bounds to a greater text."""
_LAST_CHARACTER: Final = "\U0010ffff"
Code: TypeAlias = Literal["f", "d"]
_SUMMED_ROWS: Final = 1_000
_CODES: Final[dict[pa.DataType, Code]] = {pa.float32(): "f", pa.float64(): "d"}
"""The type codes of Python's `memoryview` for the numbers of a buffer."""
_FALSE_HITS: Final = 0.01
"""The rate of false positives of a Bloom filter."""
_FEW_ROWS: Final = 1_000
"""Fewer rows get no dictionary: it saves less than its page costs."""
_SAMPLE_ROWS: Final = 2_048
_DISTINCT: Final = 0.98
"""A sample with this share of distinct values indicates too many for a dictionary to pay off."""
_LENGTH_BYTES: Final = 4
"""Bytes for the length of a string that Parquet stores without a dictionary."""


@dataclass(frozen=True, slots=True)
class ParquetOptions:
    """How files are written; `target_file_size` is the size of the rows in memory, in bytes.

    Statistics are kept for `stats_columns`; None for all columns that can have statistics.
    """

    compression: str = "snappy"
    target_file_size: int = 128 * 2**20
    row_group_rows: int = 1_048_576
    stats_columns: tuple[str, ...] | None = None
    bloom_columns: frozenset[str] = frozenset()


def encode(
    data: pa.Table,
    definition: Definition,
    partition: Mapping[int, Value],
    path: str,
    options: ParquetOptions,
) -> tuple[pa.Buffer, DataFile]:
    """Return a Parquet file in memory, and its entry for the log."""
    schema = definition.schema
    columns = columns_of(definition)
    stored = columns.schema
    if not data.schema.equals(stored, check_metadata=False):
        data = data.cast(stored)
    unordered = columns.with_nan(data)
    sink = pa.BufferOutputStream()
    writer = open_writer(sink, columns, data, unordered, options)
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


def open_writer(
    sink: pa.NativeFile,
    columns: Columns,
    sample: pa.Table,
    unordered: Collection[str],
    options: ParquetOptions,
) -> pq.ParquetWriter:
    """Open a Parquet writer whose encodings suit a sample of the rows.

    `unordered` columns get no statistics.
    """
    return pq.ParquetWriter(
        sink,
        columns.schema,
        compression=options.compression,
        write_statistics=columns.with_statistics(unordered),
        store_schema=False,
        bloom_filter_options=_bloom_options(columns, sample, options),
        **encoding_settings(sample),
    )


def _bloom_options(
    columns: Columns, sample: pa.Table, options: ParquetOptions
) -> dict[str, dict[str, float]] | None:
    """Return Bloom filter options, sized for the number of rows in a row group."""
    if not options.bloom_columns:
        return None
    names = options.bloom_columns.intersection(columns.schema.names)
    rows = max(1, min(sample.num_rows, options.row_group_rows))
    wanted = {"ndv": rows, "fpp": _FALSE_HITS}
    return {
        name: wanted for name in sorted(names) if _is_filtered(columns.schema.field(name))
    } or None


def _is_filtered(field: pa.Field) -> bool:
    types, kind = pa.types, field.type
    return bool(types.is_integer(kind) or types.is_date32(kind) or types.is_string(kind))


def columns_of(definition: Definition) -> Columns:
    """Return the columns that the files of a table have."""
    return _columns(definition.schema, () if definition.whole_files else definition.partition_by)


def footer_stats(
    metadata: pq.FileMetaData,
    schema: Schema,
    without_bounds: frozenset[int] = frozenset(),
    positions: Mapping[str, int] | None = None,
) -> FileStats:
    """Read outer bounds and null counts of the indexed columns from a file's footer.

    `without_bounds` are fields whose bounds would mislead readers (floats with NaN); `positions`
    are those of the file's columns by their names, found in the footer if not given.
    """
    if positions is None:
        positions = positions_in_file(metadata, [field.name for field in schema.indexed])
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    minimum: dict[int, Value] = {}
    maximum: dict[int, Value] = {}
    nulls: dict[int, int] = {}
    for field in schema.indexed:
        position = positions.get(field.name)
        if position is None:
            continue
        merged = _merged([g.column(position).statistics for g in groups])
        if merged is None:
            continue
        nulls[field.id], low, high = merged
        if low is None or field.id in without_bounds:
            continue
        bounds = _outer(field, low, high)
        if bounds is not None:
            minimum[field.id], maximum[field.id] = bounds
    return FileStats(minimum, maximum, nulls)


@lru_cache(maxsize=256)
def _columns(schema: Schema, partition_by: tuple[int, ...]) -> Columns:
    kept = [
        pa.field(f.name, stored_type(f.type), f.nullable, f.metadata)
        for field, f in zip(schema.fields, schema.arrow, strict=True)
        if field.id not in partition_by
    ]
    return Columns(pa.schema(kept))


def _merged(parts: Sequence[pq.Statistics | None]) -> tuple[int, Any, Any] | None:
    """Return null count, minimum and maximum over all row groups; None if a group has no count.

    There are no bounds if a group with values has none.
    """
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
    if type(low) is float and not (math.isfinite(low) and math.isfinite(high)):
        return None
    if isinstance(low, str):
        if len(low) > STRING_BOUND:
            low = low[:STRING_BOUND]
        return low, _above(high)
    if isinstance(field.type, Decimal):
        return f"{low:f}", f"{high:f}"
    return to_neutral(field.type, low), to_neutral(field.type, high)


def _above(text: str) -> str:
    """Return the text, or a short text that is above all texts with the same prefix."""
    end = STRING_BOUND
    while text[end : end + 1] == _LAST_CHARACTER:
        end += 1
    return text if len(text) <= end else text[:end] + _LAST_CHARACTER


class Columns:
    """The columns of files of one schema, and which of them may have bounds.

    Parquet leaves NaN out of a column's bounds. Engines that order NaN above all numbers, or treat
    it as equal to itself, would then skip matching rows. So columns with a NaN get no bounds.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._leaves = [
            (path, field.name, nested and pa.types.is_floating(kind))
            for field in schema
            for path, kind, nested in _paths(field.name, field.type, nested=False)
        ]
        self._floats = [
            (position, field.name, _CODES.get(field.type))
            for position, field in enumerate(schema)
            if pa.types.is_floating(field.type)
        ]
        self.positions = leaf_positions(schema)
        self._is_risky = any(risky for _, _, risky in self._leaves)

    def with_nan(self, data: pa.Table) -> list[str]:
        """Return the names of the top-level columns that have a NaN."""
        return [
            name for position, name, code in self._floats if _has_nan(data.column(position), code)
        ]

    def with_statistics(self, unordered: Collection[str]) -> bool | list[str]:
        """Return the value for Parquet's `write_statistics`: all, or the paths of leaf columns.

        Nested floats get no statistics, because they are not checked for NaN.
        """
        if not self._is_risky and not unordered:
            return True
        without = {p for p, name, risky in self._leaves if risky or name in unordered}
        return [p for p, _, _ in self._leaves if p not in without]


def _has_nan(column: pa.ChunkedArray, code: Code | None) -> bool:
    # A sum with NaN in it is NaN, and nearly every column is cleared by one.
    is_small = code is not None and len(column) <= _SUMMED_ROWS
    total: float | None = _total(column, code) if is_small and code else pc.sum(column).as_py()
    if total is None or not math.isnan(total):
        return False
    return bool(pc.any(pc.is_nan(column)).as_py())


def _total(column: pa.ChunkedArray, code: Code) -> float:
    """Return the sum of few numbers, values under nulls included; faster than an Arrow kernel."""
    total = 0.0
    for chunk in column.chunks:
        if not len(chunk):
            continue
        values = memoryview(chunk.buffers()[1]).cast("B").cast(code)
        total += sum(values[chunk.offset : chunk.offset + len(chunk)])
    return total


def _paths(
    path: str, kind: pa.DataType, *, nested: bool
) -> Iterator[tuple[str, pa.DataType, bool]]:
    types = pa.types
    if types.is_struct(kind):
        for part in kind:
            yield from _paths(f"{path}.{part.name}", part.type, nested=True)
    elif types.is_list(kind):
        yield from _paths(f"{path}.list.element", kind.value_type, nested=True)
    elif types.is_map(kind):
        yield from _paths(f"{path}.key_value.key", kind.key_type, nested=True)
        yield from _paths(f"{path}.key_value.value", kind.item_type, nested=True)
    else:
        yield path, kind, nested


def encoding_settings(data: pa.Table) -> dict[str, Any]:
    """Return arguments of `ParquetWriter` that determine how these rows are encoded.

    Values that repeat get a dictionary. If they hardly repeat, the writer would hash a megabyte of
    them before it gives up, and the file would be larger and slower to read. Whole numbers that
    hardly repeat are mostly ids and timestamps, which are close together, so their differences are
    stored.
    """
    if data.num_rows < _FEW_ROWS:
        return {"use_dictionary": False}
    if data.num_rows < 2 * _SAMPLE_ROWS or any(pa.types.is_nested(t) for t in data.schema.types):
        # A list of names would have to spell the paths of all leaves.
        return {"use_dictionary": True}
    sample = data.take(_sampled(data.num_rows))
    repeating = [name for name in data.column_names if _repeats(sample.column(name))]
    close = [f.name for f in data.schema if f.name not in repeating and _is_whole(f.type)]
    return {
        "use_dictionary": repeating,
        "column_encoding": dict.fromkeys(close, "DELTA_BINARY_PACKED") or None,
    }


def has_dictionary(chunk: pq.ColumnChunkMetaData) -> bool:
    """Whether strings of a file are stored as a dictionary, judged by their total size."""
    known = chunk.statistics
    missing = known.null_count if known is not None and known.has_null_count else 0
    spelled_out = _LENGTH_BYTES * (chunk.num_values - missing)
    return bool(chunk.has_dictionary_page and chunk.total_uncompressed_size < spelled_out)


def _sampled(rows: int) -> pa.Array:
    """Return random positions: in a regular sample, values that repeat in cycles look distinct."""
    return pc.unique(pc.floor(pc.multiply(_places(), rows)).cast(pa.int64()))


@cache
def _places() -> pa.Array:
    chance = random.Random(0)  # noqa: S311  the same rows must always give the same file
    return pa.array([chance.random() for _ in range(_SAMPLE_ROWS)], pa.float64())


def _is_whole(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_date(kind) or types.is_timestamp(kind))


def _repeats(sample: pa.ChunkedArray) -> bool:
    known = len(sample) - sample.null_count
    return bool(pc.count_distinct(sample).as_py() < _DISTINCT * known)
