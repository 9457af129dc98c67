"""Ids of rewritten rows: a row that is moved or updated keeps its id.

A file stores the ids of such rows in columns that readers of the table do not see. A row without an
id, because the transaction itself added it, gets one when its file is committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.engines.arrow.keys import Positions
from lakeward.formats.registry import format_of
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile, FileStats
from lakeward.model.row_ids import ROW_ID, VERSION_ID, RowIds
from lakeward.storage.base import Storage
from lakeward.write.stage.stager import Stager


@dataclass(frozen=True, slots=True)
class KeptIds:
    """Reads and writes the hidden columns of one table.

    Attributes:
        ids: Where files store ids; None for a table whose rows have no ids.
        definition: The table's definition, with the hidden columns if there are any.
    """

    ids: RowIds | None
    definition: Definition

    @classmethod
    def of(cls, storage: Storage, head: Head, definition: Definition) -> KeptIds:
        """Return the hidden columns of a table."""
        ids = format_of(head).row_ids(storage, head, definition)
        return cls(ids, definition if ids is None else ids.within(definition))

    @property
    def names(self) -> Sequence[str]:
        """Names of the hidden columns that hold row ids; none without row tracking."""
        return () if self.ids is None else self.ids.names

    def filled(self, rows: pa.Table, file: DataFile, positions: Positions) -> pa.Table:
        """Return rows with ids computed from the file where the hidden columns are null."""
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
        """Return rows with new values and their old ids; the version will be the commit's."""
        if self.ids is None:
            return new
        return self._with(new, old.column(self.ids.row_id))

    def inserted(self, new: pa.Table) -> pa.Table:
        """Return new rows, with empty hidden columns."""
        return new if self.ids is None else self._with(new, None)

    def visible(self, rows: pa.Table) -> pa.Table:
        """Return rows without the hidden columns."""
        return rows.drop_columns([n for n in self.names if n in rows.column_names])

    def stage(
        self, stager: Stager, tables: Iterable[pa.Table], *, trusted: bool = False
    ) -> list[DataFile]:
        """Write validated rows with their hidden columns."""
        if self.ids is None:
            return stager.stage(tables, trusted=trusted, complete=True)
        own = replace(stager, definition=self.definition)
        return [unhidden(f) for f in own.stage(self._whole(tables), trusted=True, complete=True)]

    def _whole(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        wanted = self.definition.schema.arrow
        for rows in tables:
            have = set(rows.column_names)
            yield (
                rows
                if have.issuperset(self.names) or rows.schema.equals(wanted)
                else (self.inserted(rows))
            )

    def _with(self, new: pa.Table, row_ids: pa.ChunkedArray | None) -> pa.Table:
        nothing = pa.chunked_array([pa.nulls(new.num_rows, pa.int64())])
        hidden = [nothing if row_ids is None else row_ids, nothing]
        return pa.Table.from_arrays([*new.columns, *hidden], schema=self.definition.schema.arrow)


def unhidden(file: DataFile) -> DataFile:
    """Return a file without statistics of the hidden columns."""
    stats = file.stats
    if stats is None:
        return file
    hidden = (ROW_ID, VERSION_ID)
    minimum = {i: v for i, v in stats.minimum.items() if i not in hidden}
    maximum = {i: v for i, v in stats.maximum.items() if i not in hidden}
    nulls = {i: n for i, n in stats.nulls.items() if i not in hidden}
    return replace(file, stats=FileStats(minimum, maximum, nulls, tight=stats.tight))
