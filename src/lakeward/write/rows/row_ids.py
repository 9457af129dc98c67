"""Ids and origins of rewritten rows: a row that is moved or updated keeps both.

A file stores the ids of such rows in hidden columns, which readers of the table do not see. A row
that the transaction added has no id until its file is committed. The origin of a row is not stored
in the file: it is recorded while the row is written (`lakeward.write.plan.origins`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.engines.arrow.keys import Positions
from lakeward.formats.registry import format_of
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile, FileStats, LoggedFile
from lakeward.model.row_ids import HIDDEN, RowIds
from lakeward.storage.base import Storage
from lakeward.write.plan.change import Change
from lakeward.write.plan.origins import COLUMN, NEW, changed
from lakeward.write.stage.stager import Stager

FindOrigins: TypeAlias = Callable[[LoggedFile, Positions], Positions]
_ORIGIN: Final = pa.field(COLUMN, pa.int64())


@dataclass(frozen=True, slots=True)
class KeptIds:
    """Reads and writes the hidden columns of one table.

    Attributes:
        ids: The hidden columns in which files store ids; None for a table whose rows have no ids.
        definition: The table's definition, with the hidden columns if there are any.
        origins: Finds the origins of rows by their positions in a file; None if not needed.
    """

    ids: RowIds | None
    definition: Definition
    origins: FindOrigins | None = None

    @classmethod
    def of(
        cls,
        storage: Storage,
        head: Head,
        definition: Definition,
        origins: FindOrigins | None = None,
    ) -> KeptIds:
        """Return the hidden columns of a table."""
        ids = format_of(head).row_ids(storage, head, definition)
        return cls(ids, definition if ids is None else ids.within(definition), origins)

    @classmethod
    def of_change(cls, storage: Storage, change: Change) -> KeptIds:
        """Return the hidden columns for rows that a change rewrites, with their origins."""
        known = change.origins
        if known is None:
            return cls.of(storage, change.head, change.definition)
        # A file of the base version of which rows were deleted in place is among the added ones.
        base = {file.path: file for file in change.removed.values()}

        def find(file: LoggedFile, positions: Positions) -> Positions:
            if file.added <= change.head.version:
                return known.of_base(file, positions)
            if file.path in base:
                return known.of_base(base[file.path], positions)
            return known.of_written(file.path, positions)

        return cls.of(storage, change.head, change.definition, find)

    @property
    def schema(self) -> pa.Schema:
        """The columns of rows for `stage`: those of the table, hidden columns, and origins."""
        schema = self.definition.schema.arrow
        return schema if self.origins is None else schema.append(_ORIGIN)

    @property
    def names(self) -> Sequence[str]:
        """The names of the hidden columns of row ids and versions; none without row ids."""
        return () if self.ids is None else self.ids.names

    def filled(self, rows: pa.Table, file: LoggedFile, positions: Positions) -> pa.Table:
        """Return rows of a file with all their ids, and with their origins if these are recorded.

        Where the hidden columns are null, the ids are computed from the file's first row id and
        the rows' positions.
        """
        rows = self._numbered(rows, file.file, positions)
        if self.origins is None:
            return rows
        return rows.append_column(_ORIGIN, pa.array(self.origins(file, positions)))

    def _numbered(self, rows: pa.Table, file: DataFile, positions: Positions) -> pa.Table:
        first = None if self.ids is None else self.ids.first(file)
        if self.ids is None or first is None:
            return rows
        base, version = first
        own = {
            self.ids.row_id: pa.array(positions.astype(np.int64) + base),
            self.ids.version: pa.repeat(pa.scalar(version, pa.int64()), rows.num_rows),
        }
        for name, values in own.items():
            place = rows.schema.get_field_index(name)
            found = pc.coalesce(rows.column(place), pa.chunked_array([values]))
            rows = rows.set_column(place, rows.schema.field(place), found)
        return rows

    def updated(self, new: pa.Table, old: pa.Table) -> pa.Table:
        """Return rows with new values and the ids of the old rows; their version stays null.

        A null version means the version of the commit that adds the file.
        """
        if self.ids is not None:
            new = self._with(new, old.column(self.ids.row_id))
        if self.origins is None:
            return new
        return new.append_column(_ORIGIN, pa.array(changed(old[COLUMN].to_numpy())))

    def inserted(self, new: pa.Table) -> pa.Table:
        """Return new rows with nulls in the hidden columns."""
        new = new if self.ids is None else self._with(new, None)
        if self.origins is None:
            return new
        return new.append_column(_ORIGIN, pa.repeat(pa.scalar(NEW, pa.int64()), new.num_rows))

    def visible(self, rows: pa.Table) -> pa.Table:
        """Return rows without the hidden columns."""
        return rows.drop_columns([n for n in (*self.names, COLUMN) if n in rows.column_names])

    def stage(
        self, stager: Stager, tables: Iterable[pa.Table], *, trusted: bool = False
    ) -> list[DataFile]:
        """Write rows with their hidden columns to staged files, and return the files."""
        if self.ids is None and self.origins is None:
            return stager.stage(tables, trusted=trusted, complete=True)
        own = replace(stager, definition=self.definition)
        return [unhidden(f) for f in own.stage(self._whole(tables), trusted=True, complete=True)]

    def _whole(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        wanted = self.schema
        for rows in tables:
            is_whole = set(rows.column_names).issuperset(wanted.names)
            yield rows if is_whole else self.inserted(rows)

    def _with(self, new: pa.Table, row_ids: pa.ChunkedArray | None) -> pa.Table:
        nothing = pa.chunked_array([pa.nulls(new.num_rows, pa.int64())])
        hidden = [nothing if row_ids is None else row_ids, nothing]
        return pa.Table.from_arrays([*new.columns, *hidden], schema=self.definition.schema.arrow)


def unhidden(file: DataFile) -> DataFile:
    """Return a file without statistics of the hidden columns."""
    stats = file.stats
    if stats is None:
        return file
    minimum = {i: v for i, v in stats.minimum.items() if i not in HIDDEN}
    maximum = {i: v for i, v in stats.maximum.items() if i not in HIDDEN}
    nulls = {i: n for i, n in stats.nulls.items() if i not in HIDDEN}
    return replace(file, stats=FileStats(minimum, maximum, nulls, tight=stats.tight))
