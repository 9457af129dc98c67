"""Stages changed rows of committed versions as DataFrames of a transaction on Spark.

The rows are read by the embedded engine, batch by batch, and written as Parquet files of bounded
size to a directory that the store records before it is made. The directory is deleted when the
transaction ends; if the process died, the next one that opens the lake deletes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.context import LakeContext
from lakeward.engines.spark.paths import exact
from lakeward.engines.spark.table_changes import changes_calls, replaced
from lakeward.errors import VersionNotFound
from lakeward.model.commit import Head
from lakeward.model.names import TableName
from lakeward.model.quoting import identifier
from lakeward.model.steps import reach
from lakeward.read.changes import check_range, first_version, last_version, read_changes
from lakeward.read.snapshot import TableSnapshot, at_version
from lakeward.write.branch.directory import clear_scratch, note_scratch
from lakeward.write.spark.origins import marked
from lakeward.write.spark.tables import SparkTables
from lakeward.write.transaction.view import View

if TYPE_CHECKING:
    from lakeward.engines.spark.workspace import DataFrame, SparkSession

_FILE_BYTES: Final = 64 * 2**20
_GROUP_ROWS: Final = 1 << 17


class StagedChanges:
    """The changed rows that one transaction has read."""

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
        """Return the changes from version `since` to the snapshot's, without versions in `skip`."""
        found = read_changes(until, since, key=list(key) or None, skip=skip)
        context = self._view.context
        paths = list(self._files(context, found))
        rows = spark.read.parquet(*(exact(context.storage.uri(p)) for p in paths))
        return marked(rows, until.log_head.name)

    def delete(self) -> None:
        """Delete the files, after the transaction has ended."""
        if self._directory is not None:
            clear_scratch(self._view.context, self._directory)
            self._directory = None

    def _files(self, context: LakeContext, rows: pa.RecordBatchReader) -> Iterator[str]:
        """Write the rows to files and yield the paths; without rows, one empty file."""
        if self._directory is None:
            self._view.register()
            self._directory = note_scratch(context, self._view.transaction_id)
        for data in _encoded(rows.schema, rows):
            path = f"{self._directory}/changes-{self._count:05d}.parquet"
            self._count += 1
            context.storage.replace(path, data)
            reach("changes.staged")
            yield path


def with_changes(tables: SparkTables, staged: StagedChanges, text: str) -> str:
    """Return a statement in which names of staged rows replace the calls of `table_changes(…)`.

    Committed versions are read, up to the one that the transaction sees; its own changes have no
    version yet.

    Raises:
        InvalidInput: A call is malformed, or its range ends before it begins.
        TableNotFound: There is no such table.
        VersionNotFound: There is no such version, or the transaction does not see it.
    """
    calls = changes_calls(text)
    named = []
    for call in calls:
        seen = tables.snapshot(TableName.parse(call.table))
        head = seen.log_head
        with tables.context.database.read() as session:
            first = first_version(session, head, call.since)
            last = last_version(session, head, call.until)
            _check_seen(head, first, last)
            check_range(head, first, last)
            until = at_version(tables.context, session, head, last)
        rows = staged.frame(tables.workspace.session, until, first)
        named.append((call, identifier(tables.workspace.named(rows))))
    return replaced(text, named)


def _check_seen(head: Head, *versions: int) -> None:
    newer = next((v for v in versions if v > head.version), None)
    if newer is not None:
        what = f"The transaction sees {head.name} at version {head.version}, not {newer}."
        hint = "Begin another transaction to read newer versions."
        raise VersionNotFound(what, hint=hint, table=str(head.name), version=newer)


def _encoded(schema: pa.Schema, rows: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Yield the rows as complete Parquet files, at least one."""
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
