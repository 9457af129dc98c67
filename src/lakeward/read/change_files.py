"""Yields the rows of change files: old values before new values, or split by kind of change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.engines.arrow.spill import Spill
from lakeward.formats.delta.changes import CHANGE_TYPE, DELETED, INSERTED, UPDATED_FROM, UPDATED_TO

_OLD: Final = pa.array([DELETED, UPDATED_FROM])
_MEMORY: Final = 256 * 2**20
Kinds = Iterator[tuple[str | None, pa.Table]]
"""Pairs of a kind of change and rows of it; the kind is None if a column of the rows has it."""


def old_first(batches: Iterable[pa.RecordBatch]) -> Kinds:
    """Yield rows of change files, old values first; new values are buffered, on disk if many."""
    with closing(_Buffer(_MEMORY)) as later:
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            is_old = pc.is_in(batch.column(CHANGE_TYPE), value_set=_OLD)
            old, new = _divided(rows, is_old)
            if old.num_rows:
                yield None, old
            if new.num_rows:
                later.add(new)
        for some in later.tables():
            yield None, some


def old_kinds_first(found: Kinds) -> Kinds:
    """Yield rows by kind, kinds of old values first; new values are buffered, on disk if many."""
    with closing(_Buffer(_MEMORY)) as updated, closing(_Buffer(_MEMORY)) as inserted:
        for kind, rows in found:
            if kind == UPDATED_TO:
                updated.add(rows)
            elif kind == INSERTED:
                inserted.add(rows)
            else:
                yield kind, rows
        for kind, later in ((UPDATED_TO, updated), (INSERTED, inserted)):
            for rows in later.tables():
                yield kind, rows


class _Buffer:
    """Rows of one schema, in the order in which they were added: in memory, on disk if many."""

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._held: list[pa.Table] = []
        self._size = 0
        self._spill: Spill | None = None

    def add(self, rows: pa.Table) -> None:
        self._size += rows.nbytes
        if self._spill is None and self._size > self._memory:
            self._spill = Spill(rows.schema)
            for some in self._held:
                self._spill.write(some)
            self._held = []
        if self._spill is None:
            self._held.append(rows)
        else:
            self._spill.write(rows)

    def tables(self) -> list[pa.Table]:
        return self._held if self._spill is None else [self._spill.finish()]

    def close(self) -> None:
        if self._spill is not None:
            self._spill.close()


def _divided(rows: pa.Table, is_first: pa.BooleanArray) -> tuple[pa.Table, pa.Table]:
    """Return the rows for which a mask is true, and the rows for which it is false.

    If the mask is true for the first rows only, no row is copied. A small remainder is copied, so
    that it does not keep all rows in memory.
    """
    count, rest = is_first.true_count, rows.num_rows - is_first.true_count
    if is_first.slice(0, count).true_count == count and (rest == 0 or rest >= count):
        return rows.slice(0, count), rows.slice(count)
    return rows.filter(is_first), rows.filter(pc.invert(is_first))


def split(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, pa.Table]]:
    """Yield the kinds of change in each batch of change files, each with its rows."""
    for batch in batches:
        kinds = batch.column(CHANGE_TYPE)
        rows = pa.Table.from_batches([batch]).drop_columns([CHANGE_TYPE])
        for kind in pc.unique(kinds).to_pylist():
            yield kind, rows.filter(pc.equal(kinds, kind))
