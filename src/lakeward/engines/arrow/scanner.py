"""Reads a stream of rows by a filter and columns, in the thread that requests them.

Arrow's own `Scanner.from_batches` pulls a stream in a thread of Arrow's pool. If reading the stream
needs that pool too, as reading Parquet files does, as many scanners as the pool has threads wait
for each other forever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import acero

Columns: TypeAlias = Sequence[str] | Mapping[str, pc.Expression]
"""Names of columns, or expressions by the names of their results."""


class StreamScanner:
    """A scanner with the methods of `pyarrow.dataset.Scanner` that engines call."""

    def __init__(
        self,
        schema: pa.Schema,
        read: Callable[[], pa.RecordBatchReader],
        columns: Columns,
        filter: pc.Expression | None,  # noqa: A002  Arrow's own word
    ) -> None:
        """Prepare to read.

        Args:
            schema: The schema of the stream, for the columns and the filter.
            read: Opens the stream.
            columns: The columns of the result.
            filter: Only rows for which this expression is true.
        """
        self.dataset_schema = schema
        self._read = read
        self._columns = columns
        self._filter = filter

    @property
    def projected_schema(self) -> pa.Schema:
        """Schema of the rows that are returned."""
        if isinstance(self._columns, Mapping):
            empty = self.dataset_schema.empty_table()
            return _computed(empty, self._columns, None).schema
        return pa.schema([self.dataset_schema.field(name) for name in self._columns])

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as record batches."""
        with self._read() as reader:
            for batch in reader:
                found = self._of(_plain(batch, self.dataset_schema))
                yield from found.to_batches() if isinstance(found, pa.Table) else (found,)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def to_table(self) -> pa.Table:
        """Return the rows as an Arrow table."""
        return pa.Table.from_batches(self.to_batches(), self.projected_schema)

    def head(self, num_rows: int) -> pa.Table:
        """Return the first rows."""
        found, left = [], num_rows
        for batch in self.to_batches() if num_rows > 0 else ():
            found.append(batch.slice(0, left))
            left -= found[-1].num_rows
            if left <= 0:
                break
        return pa.Table.from_batches(found, self.projected_schema)

    def count_rows(self) -> int:
        """Return the number of rows."""
        return sum(batch.num_rows for batch in self.to_batches())

    def take(self, indices: Any) -> pa.Table:
        """Return the rows at the given positions."""
        return self.to_table().take(indices)

    def _of(self, batch: pa.RecordBatch) -> pa.RecordBatch | pa.Table:
        if isinstance(self._columns, Mapping):
            return _computed(pa.Table.from_batches([batch]), self._columns, self._filter)
        if self._filter is None:
            return batch.select(list(self._columns))
        kept = _computed(pa.Table.from_batches([batch]), None, self._filter)
        # Arrow's plans forget which columns are required.
        whole = pa.Table.from_arrays(kept.columns, schema=self.dataset_schema)
        return whole.select(list(self._columns))


def _plain(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of the schema, without the field ids of files in nested types.

    Engines compare types with their metadata.
    """
    if batch.schema.equals(schema, check_metadata=True):
        return batch
    if batch.schema.names != schema.names:
        batch = batch.select(schema.names)
    arrays = [
        column if column.type.equals(field.type, check_metadata=True) else column.view(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _computed(
    rows: pa.Table, columns: Mapping[str, pc.Expression] | None, kept: pc.Expression | None
) -> pa.Table:
    """Return expressions of the rows that match a filter; None for the columns as they are."""
    steps = [acero.Declaration("table_source", acero.TableSourceNodeOptions(rows))]
    if kept is not None:
        steps.append(acero.Declaration("filter", acero.FilterNodeOptions(kept)))
    if columns is not None:
        project = acero.ProjectNodeOptions(list(columns.values()), list(columns))
        steps.append(acero.Declaration("project", project))
    # Several threads would not keep the order of the rows.
    return acero.Declaration.from_sequence(steps).to_table(use_threads=False)
