"""Writes rows as Parquet files of about a given size on disk, with little memory.

Row groups are encoded as rows arrive, so that memory holds the encoded file and one row group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.engines.arrow.parquet import ParquetOptions, columns_of, footer_stats, open_writer
from lakeward.model.clock import now_ms
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile
from lakeward.model.values import Value

_GROUP_BYTES: Final = 32 * 2**20
"""The largest size of a row group in memory, where it is one table before it is encoded."""


@dataclass(frozen=True, slots=True)
class Packed:
    """An encoded file, and its log entry without a path."""

    data: pa.Buffer
    file: DataFile


def packed(
    tables: Iterable[pa.Table],
    definition: Definition,
    partition: Mapping[int, Value],
    options: ParquetOptions,
    *,
    size: int,
    unordered: Collection[str] = (),
) -> Iterator[Packed]:
    """Encode rows of one partition, in their order, as files of about `size` bytes.

    Args:
        tables: The rows, with exactly the columns that the files have.
        definition: The definition of the files.
        partition: The values of the partition.
        options: How files are written; `row_group_rows` is a row group's largest number of rows.
        size: A file is finished when it has this many bytes.
        unordered: Columns that get no bounds, because a NaN may be among their values.
    """
    current: _File | None = None
    for group in _groups(tables, options.row_group_rows, min(_GROUP_BYTES, size)):
        if current is None:
            current = _File(group, definition, options, unordered)
        current.write(group)
        if current.size >= size:
            yield current.end(partition)
            current = None
    if current is not None:
        yield current.end(partition)


class _File:
    """A file that is being encoded."""

    def __init__(
        self,
        sample: pa.Table,
        definition: Definition,
        options: ParquetOptions,
        unordered: Collection[str],
    ) -> None:
        self._schema = definition.schema
        self._columns = columns_of(definition)
        self._unordered = unordered
        self._nulls: Counter[int] = Counter()
        self._rows = 0
        self._sink = pa.BufferOutputStream()
        fitting = self._fitting(sample)
        self._writer = open_writer(self._sink, self._columns, fitting, unordered, options)

    @property
    def size(self) -> int:
        return int(self._sink.tell())

    def write(self, rows: pa.Table) -> None:
        fitting = self._fitting(rows)
        self._writer.write_table(fitting, row_group_size=max(1, rows.num_rows))
        self._rows += rows.num_rows
        for name in self._unordered:
            self._nulls[self._schema.by_name[name].id] += rows.column(name).null_count

    def end(self, partition: Mapping[int, Value]) -> Packed:
        self._writer.close()
        data = self._sink.getvalue()
        metadata: pq.FileMetaData = self._writer.writer.metadata
        stats = footer_stats(metadata, self._schema, positions=self._columns.positions)
        if self._unordered:
            stats = replace(stats, nulls={**stats.nulls, **self._nulls})
        file = DataFile(
            path="",
            size=data.size,
            rows=self._rows,
            modified_ms=now_ms(),
            partition=partition,
            stats=stats,
        )
        return Packed(data, file)

    def _fitting(self, rows: pa.Table) -> pa.Table:
        wanted = self._columns.schema
        return rows if rows.schema.equals(wanted, check_metadata=False) else rows.cast(wanted)


def _groups(tables: Iterable[pa.Table], most: int, largest: int) -> Iterator[pa.Table]:
    """Combine or split tables into row groups."""
    waiting: list[pa.Table] = []
    count = size = 0
    for table in tables:
        rest = table
        while rest.num_rows:
            room = most - count
            per_row = max(1, rest.nbytes // rest.num_rows)
            fits = max(1, min(room, (largest - size) // per_row))
            part = rest.slice(0, fits)
            waiting.append(part)
            count += part.num_rows
            size += part.num_rows * per_row
            rest = rest.slice(part.num_rows)
            if count >= most or size >= largest - per_row:
                yield pa.concat_tables(waiting)
                waiting, count, size = [], 0, 0
    if waiting:
        yield pa.concat_tables(waiting)
