"""The rows that one commit of a table changed, by kind of change.

A Delta commit with change files records which rows it changed. For any other commit of a table with
a change feed, the rows of added files were inserted and those of removed files deleted, as the
protocol says. For a commit of a table without a feed, and for Iceberg tables, rows that are both in
removed and in added files cancel out, so that only differing rows remain. For a file that got
another deletion vector, only the rows in which the two vectors differ count. A commit that only
moved rows changed none.

Rows have the columns of a later version, matched by field id: a column, or a member of a struct,
that the commit did not have is null, or has the format's default. A commit that drops such a
column, or brings it back, changes its values in all rows.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa

from lakeward.context import LakeContext
from lakeward.engines.arrow.net_rows import NetRows, Sides, net_rows
from lakeward.engines.arrow.row_groups import POSITION
from lakeward.engines.arrow.source import is_named_as_ours
from lakeward.formats.delta.changes import (
    CHANGE_TYPE,
    DELETED,
    INSERTED,
    UPDATED_FROM,
    UPDATED_TO,
    with_change_type,
)
from lakeward.formats.delta.mapping import MODE, is_by_id
from lakeward.formats.registry import format_of
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.expressions.nodes import Expression
from lakeward.model.file import LoggedFile
from lakeward.read.change_files import Kinds, old_first, old_kinds_first, split
from lakeward.read.changed_files import ChangedFiles
from lakeward.read.past_columns import missing_ids, names_read_by, optional, past_column
from lakeward.read.plan import file_may_match, to_prune_by
from lakeward.read.scan import deleted_of, equality_of, read_files

_MEMORY: Final = 256 * 2**20


class ChangeReader:
    """Reads changed rows in the columns of one version of a table.

    Args:
        context: The lake's context.
        head: The table's head.
        shown: The definition whose columns the rows have.
        columns: The names of these columns, in order.
        where: Only rows for which it is true are returned.
        key: Columns by which a deleted and an inserted row are paired as an update.
    """

    def __init__(
        self,
        context: LakeContext,
        head: Head,
        shown: Definition,
        *,
        columns: Sequence[str],
        where: Expression | None = None,
        key: Sequence[str] = (),
    ) -> None:
        self._context = context
        self._head = head
        self._format = format_of(head)
        self._shown = shown
        self._schema = shown.schema.to_arrow()
        self._columns = list(columns)
        self._key = tuple(key)
        # Pair first: an update may move a row into or out of the rows that match `where`.
        self._where = None if key else where
        self._where_after = where if key else None
        self._prune = to_prune_by(self._where, shown)

    def rows(self, found: ChangedFiles) -> Kinds:
        """Yield the rows by kind; deleted rows and old values come before inserted ones.

        Rows without a kind have it in their last column, `CHANGE_TYPE`.
        """
        for kind, rows in self._kinds(found):
            kept = rows if self._where_after is None else _filtered(rows, self._where_after)
            if kept.num_rows:
                names = self._columns if kind is not None else [*self._columns, CHANGE_TYPE]
                yield kind, kept.select(names)

    def can_join(self, found: ChangedFiles) -> bool:
        """Return whether a commit only inserted rows, with known counts, as `inserted` requires."""
        if self._where is not None or self._where_after is not None:
            return False
        if found.told or found.removed or not found.added:
            return False
        return all(
            f.file.deletion_vector is None and f.rows is not None and is_named_as_ours(f.path)
            for f in found.added
        )

    def inserted(self, group: Sequence[ChangedFiles]) -> Iterator[tuple[ChangedFiles, pa.Table]]:
        """Yield the rows of insert-only commits with one definition, read in one scan.

        Rows come in the order of the files, so row counts tell which commit each belongs to.
        """
        every = [f for found in group for f in found.added]
        left = [(found, sum(f.rows or 0 for f in found.added)) for found in group]
        place, taken = 0, 0
        for batch in self._read(every, group[0].definition, self._columns):
            rows = _table(batch)
            while rows.num_rows:
                while taken == left[place][1]:
                    place, taken = place + 1, 0
                found, count = left[place]
                part = rows.slice(0, count - taken)
                yield found, part
                taken += part.num_rows
                rows = rows.slice(part.num_rows)

    def _kinds(self, found: ChangedFiles) -> Kinds:
        if found.told:
            yield from self._told(found)
            return
        gone, came = list(found.removed), list(found.added)
        if not gone or not came:
            names = list(dict.fromkeys((*self._columns, *self._used_after())))
            for batch in self._read(gone, found.before, names):
                yield DELETED, _table(batch)
            for batch in self._read(came, found.definition, names):
                yield INSERTED, _table(batch)
            return
        before, after = self.sides(gone, found.before, came, found.definition, whole=found.whole)
        # Readers of a feed take added and removed rows as they are; but a row that is unchanged
        # under its key is not an update, nor one that a commit with all files has twice.
        has_feed = self._format.has_change_feed(found.definition)
        cancel = bool(self._key) or found.whole or not has_feed
        # Rows that do not fit into memory are compared in parts, each with old and new values.
        yield from old_kinds_first(self._net(before, after, cancel=cancel))

    def sides(
        self,
        gone: Sequence[LoggedFile],
        old: Definition,
        came: Sequence[LoggedFile],
        new: Definition,
        *,
        whole: bool = False,
    ) -> tuple[Iterator[pa.RecordBatch], Iterator[pa.RecordBatch]]:
        """Return the rows of the removed files, and those of the added files.

        Each side is read by its own definition. If only the deletion vector of a file changed, only
        the rows that one vector deletes and the other does not are returned; all with `whole`.
        """
        kept = {} if whole else {f.path: f for f in came}
        again = [(f, kept[f.path]) for f in gone if f.path in kept]
        again = [pair for pair in again if not any(map(self._has_equality_deletes, pair))]
        paths = {f.path for f, _ in again}
        names = self._shown.schema.names
        before = _chained(
            self._read([f for f in gone if f.path not in paths], old, names),
            self._marked(again, old, names),
        )
        after = _chained(
            self._read([f for f in came if f.path not in paths], new, names),
            self._marked([(one, other) for other, one in again], new, names),
        )
        return before, after

    def _net(
        self, before: Iterable[pa.RecordBatch], after: Iterable[pa.RecordBatch], *, cancel: bool
    ) -> Kinds:
        found = net_rows(
            before,
            after,
            optional(self._schema),
            key=self._key,
            cancel=cancel,
            memory=self._memory,
        )
        for part in found:
            yield from _by_kind(part)

    def _told(self, found: ChangedFiles) -> Kinds:
        """Yield the rows of change files."""
        told = [LoggedFile(f, found.commit.version, n) for n, f in enumerate(found.told)]
        names = self._shown.schema.names if self._key else self._columns
        batches = self._read(told, found.definition, names, told=True)
        if not self._key:
            yield from old_first(batches)
            return
        yield from old_kinds_first(self._told_by_key(batches))

    def _told_by_key(self, batches: Iterable[pa.RecordBatch]) -> Kinds:
        """Yield the rows of change files; deleted and inserted rows of one key are an update."""
        with closing(Sides(optional(self._schema), self._key, self._memory)) as sides:
            for kind, rows in split(batches):
                if kind not in (INSERTED, DELETED):
                    yield kind, rows
                    continue
                add = sides.add_after if kind == INSERTED else sides.add_before
                for batch in rows.to_batches():
                    add(batch)
            for part in sides.net():
                yield from _by_kind(part)

    @property
    def _memory(self) -> int:
        return min(self._context.merge_memory, _MEMORY)

    def _read(
        self,
        wanted: Sequence[LoggedFile],
        definition: Definition,
        names: Sequence[str],
        *,
        told: bool = False,
        **numbered: Any,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the live rows of files written under a definition, in the shown columns."""
        by_name, missing = self._shown.schema.by_name, self._missing_at(definition)
        where = self._where
        late = [] if where is None else names_read_by(where, missing)
        chosen = [self._fitting(f) for f in wanted if told or late or self._may_match(f)]
        if not chosen:
            return
        shown = self._change_definition if told else self._shown
        wide = list(dict.fromkeys((*names, *late)))
        known = [n for n in wide if by_name[n].id not in missing]
        extra = [CHANGE_TYPE] if told else []
        # A condition on a column that the commit did not have is tested on the nulls shown for it.
        early, read = None if late else where, [*known, *extra]
        if not read:
            # The files have none of the shown columns, so their rows are only counted.
            shown, read = definition, definition.schema.names[:1]
        rows = read_files(
            self._context.storage,
            self._head,
            shown,
            chosen,
            columns=read,
            where=early,
            **numbered,
        )
        added = extra or ([POSITION] if numbered else [])
        schema = optional(pa.schema([self._schema.field(n) for n in wide]))
        for batch in rows:
            columns = [
                past_column(batch.column(f.name), by_name[f.name], missing, f.type)
                if f.name in known
                else pa.nulls(batch.num_rows, f.type)
                for f in schema
            ]
            fields = [*schema, *(batch.schema.field(n) for n in added)]
            more = [batch.column(n) for n in added]
            whole = pa.RecordBatch.from_arrays([*columns, *more], schema=pa.schema(fields))
            if where is None or not late:
                yield whole
                continue
            kept = _filtered(_table(whole), where).select([*names, *added])
            yield from kept.to_batches()

    def _marked(
        self,
        pairs: Sequence[tuple[LoggedFile, LoggedFile]],
        definition: Definition,
        names: Sequence[str],
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows that are live in the first entry of a file and deleted in the second."""
        if not pairs:
            return
        deleted = deleted_of(self._context.storage, self._head)
        for one, other in pairs:
            if not self._may_match(one):
                continue
            mine = np.frombuffer(deleted(one), np.uint64)
            theirs = np.frombuffer(deleted(other), np.uint64)
            only = np.setdiff1d(theirs, mine, assume_unique=True).astype(np.int64)
            if not len(only):
                continue
            among = array("q", only.tobytes())
            for batch in self._read([one], definition, names, numbered=True, among=among):
                places = np.asarray(batch.column(POSITION))
                kept = batch.filter(pa.array(np.isin(places, only)))
                yield kept.select(list(names))

    def _may_match(self, file: LoggedFile) -> bool:
        return self._prune is None or file_may_match(self._prune, file.file)

    def _has_equality_deletes(self, file: LoggedFile) -> bool:
        found = equality_of(self._context.storage, self._head)
        return found is not None and bool(found(file))

    def _missing_at(self, definition: Definition) -> AbstractSet[int]:
        """Return the ids of shown fields that files of a definition cannot have.

        A file may have a namesake of such a field, or values from before the field was dropped.
        """
        return missing_ids(
            self._shown.schema, definition.schema, has_defaults=self._format.columns_by_id
        )

    def _fitting(self, file: LoggedFile) -> LoggedFile:
        """Return the file without partition values of columns that are not shown."""
        known = self._shown.schema
        kept = {
            i: v
            for i, v in file.partition.items()
            if i < 0 or known.current_values({i: v}).keys() <= known.by_id.keys()
        }
        if len(kept) == len(file.partition):
            return file
        return replace(file, file=replace(file.file, partition=kept))

    @cached_property
    def _change_definition(self) -> Definition:
        """Return the definition for reading change files, whose last column has no fixed id."""
        shown = self._shown
        if is_by_id(shown):
            shown = replace(shown, properties={**shown.properties, MODE: "name"})
        return with_change_type(shown)

    def _used_after(self) -> list[str]:
        if self._where_after is None:
            return []
        from lakeward.model.expressions.nodes import columns_in

        return [c.field.name for c in columns_in(self._where_after)]


def _by_kind(found: NetRows) -> Kinds:
    for kind, rows in (
        (DELETED, found.deleted),
        (UPDATED_FROM, found.before),
        (UPDATED_TO, found.after),
        (INSERTED, found.inserted),
    ):
        if rows.num_rows:
            yield kind, rows


def _filtered(rows: pa.Table, where: Expression) -> pa.Table:
    from lakeward.engines.arrow.expression import to_arrow

    return rows.filter(to_arrow(where))


def _chained(*sources: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for source in sources:
        yield from source


def _table(batch: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([batch])
