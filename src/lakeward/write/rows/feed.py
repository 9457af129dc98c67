"""Writes the change feed of a Delta table: change files with the rows that a commit changes.

A commit that only adds rows, or only removes whole files, needs no change files: readers derive the
changes from its data files. If an update or a merge is the only operation on a table, it records
rows while it changes them; for a single delete, the rows are read from the removed files. For
several operations, and after a conflict that `LastWriterWins` resolved, the changes are the
difference of rows between removed and added files, so that an update appears as a delete and an
insert.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lakeward.engines.arrow.keys import difference
from lakeward.formats.delta.changes import (
    CHANGE_TYPE,
    DELETED,
    INSERTED,
    UPDATED_FROM,
    UPDATED_TO,
    with_change_type,
)
from lakeward.formats.registry import format_of
from lakeward.model.file import DataFile, LoggedFile
from lakeward.model.steps import reach
from lakeward.read.scan import read_files
from lakeward.storage.base import Storage
from lakeward.write.plan.change import Added, Change, RowsChanged
from lakeward.write.stage.stager import Stager


@dataclass(frozen=True, slots=True)
class Feed:
    """Writes change files of one table; thread-safe."""

    stager: Stager

    @classmethod
    def of(cls, stager: Stager) -> Feed | None:
        """Return the feed of a stager's table; None if the table has no change feed."""
        definition = stager.definition
        if not format_of(stager.head).has_change_feed(definition):
            return None
        changes = replace(with_change_type(definition), constraints={}, derived={})
        return cls(stager.beside(changes, below="_change_data/", stem="cdc"))

    def write(self, changes: Iterable[tuple[str, pa.Table]]) -> list[DataFile]:
        """Write rows as change files; `changes` has pairs of a kind of change and rows."""
        rows = (self._with_kind(kind, table) for kind, table in changes if table.num_rows)
        written = self.stager.stage(rows, complete=True)
        if written:
            reach("rows.told")
        return [DataFile(f.path, f.size, None, 0, f.partition) for f in written]

    def write_changes(self, *, before: pa.Table, after: pa.Table, gone: pa.Table) -> list[DataFile]:
        """Write updated rows with their old and new values, and deleted rows, as change files."""
        return self.write([(UPDATED_FROM, before), (UPDATED_TO, after), (DELETED, gone)])

    def write_new(self, rows: pa.Table) -> list[DataFile]:
        """Write inserted rows as change files."""
        return self.write([(INSERTED, rows)])

    def _with_kind(self, kind: str, rows: pa.Table) -> pa.Table:
        kinds = pa.repeat(pa.scalar(kind), rows.num_rows)
        marked = rows.append_column(CHANGE_TYPE, kinds)
        wanted = self.stager.definition.schema.arrow
        columns = [c.cast(f.type) for c, f in zip(marked.columns, wanted, strict=True)]
        return pa.Table.from_arrays(columns, schema=wanted)


def finish(storage: Storage, stager: Stager, change: Change) -> None:
    """Set the change files that a commit publishes, if the table has a feed; write missing ones.

    None are needed if readers can derive the changes from added and removed files.
    """
    feed = Feed.of(stager) if change.steps or change.rejected else None
    if feed is None:
        return
    match change.steps:
        case _ if change.overrides:
            # The steps do not describe the rows of others that were removed.
            found = feed.write(_difference(storage, change))
        case _ if not change.fixed and _is_implied(change):
            found = []
        case _ if change.rejected:
            # What the steps recorded has changes of rows that were put back since.
            found = feed.write(_difference(storage, change))
        case [RowsChanged(operation=int())] if not change.fixed:
            found = change.recorded_change_files
        case [RowsChanged(plan)] if plan.only_clause is not None and not change.fixed:
            files, where = list(change.removed.values()), plan.only_clause.condition
            rows = read_files(storage, change.head, change.definition, files, where=where)
            found = feed.write((DELETED, pa.Table.from_batches([b])) for b in rows)
        case _:
            found = feed.write(_difference(storage, change))
    change.change_files[:] = found


def _is_implied(change: Change) -> bool:
    """Return whether removed files contain only deleted rows, and added files only new rows."""
    removed = [f.file for f in change.removed.values()]
    return all(
        isinstance(step, Added) or all(map(step.plan.deletes_all_of, removed))
        for step in change.steps
    )


def _difference(storage: Storage, change: Change) -> Iterator[tuple[str, pa.Table]]:
    came = [LoggedFile(f, change.head.version + 1, n) for n, f in enumerate(change.added)]
    gone, new = difference(
        _rows(storage, change, list(change.removed.values())), _rows(storage, change, came)
    )
    yield DELETED, gone
    yield INSERTED, new


def _rows(storage: Storage, change: Change, files: Sequence[LoggedFile]) -> pa.Table:
    return read_files(storage, change.head, change.definition, files).read_all()
