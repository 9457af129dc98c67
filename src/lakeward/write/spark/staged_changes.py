"""Changed rows of committed versions as frames of a transaction on Spark.

The rows are read by the embedded engine, batch by batch, and written as Parquet files of bounded
size to a directory that the store records before it is made. The directory is deleted when the
transaction ends; for a process that died, the next one to open the lake deletes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.context import LakeContext
from lakeward.read.changes import read_changes
from lakeward.read.snapshot import TableSnapshot
from lakeward.write.branch.directory import clear_scratch, note_scratch
from lakeward.write.transaction.view import View

if TYPE_CHECKING:
    from lakeward.engines.spark.workspace import DataFrame, SparkSession

_FILE_BYTES: Final = 64 * 2**20
_GROUP_ROWS: Final = 1 << 17


class StagedChanges:
    """The changed rows that one transaction has asked for."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._directory: str | None = None
        self._count = 0

    def frame(
        self,
        spark: SparkSession,
        until: TableSnapshot,
        since: int,
        *,
        key: Sequence[str] = (),
        skip: AbstractSet[int] = frozenset(),
    ) -> DataFrame:
        """The changes from a version to that of a snapshot, without those of versions to skip."""
        found = read_changes(until, since, key=list(key) or None, skip=skip)
        context = self._view.context
        paths = list(self._files(context, found))
        return spark.read.parquet(*(context.storage.uri(p) for p in paths))

    def delete(self) -> None:
        """Delete the files, when the transaction is over."""
        if self._directory is not None:
            clear_scratch(self._view.context, self._directory)
            self._directory = None

    def _files(self, context: LakeContext, rows: pa.RecordBatchReader) -> Iterator[str]:
        """Write the rows; a file that has no rows has their columns."""
        if self._directory is None:
            self._view.register()
            self._directory = note_scratch(context, self._view.transaction_id)
        for data in _encoded(rows.schema, rows):
            path = f"{self._directory}/changes-{self._count:05d}.parquet"
            self._count += 1
            context.storage.replace(path, data)
            yield path


def _encoded(schema: pa.Schema, rows: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """The rows as whole Parquet files, at least one."""
    sink = pa.BufferOutputStream()
    writer = pq.ParquetWriter(sink, schema)
    is_first = True
    waiting: list[pa.RecordBatch] = []
    for batch in rows:
        waiting.append(batch)
        if sum(b.num_rows for b in waiting) < _GROUP_ROWS:
            continue
        writer.write_table(pa.Table.from_batches(waiting))
        waiting = []
        if sink.tell() >= _FILE_BYTES:
            writer.close()
            is_first = False
            yield sink.getvalue().to_pybytes()
            sink = pa.BufferOutputStream()
            writer = pq.ParquetWriter(sink, schema)
    if waiting:
        writer.write_table(pa.Table.from_batches(waiting))
    if is_first or waiting or sink.tell() > 4:
        writer.close()
        yield sink.getvalue().to_pybytes()
