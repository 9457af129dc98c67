"""Computes the rows by which two streams of rows differ, in bounded memory.

Rows in both streams cancel out, as often as both have them. With a key, a deleted and an inserted
row of the same key are the two images of one update. Streams that are too large for memory are
split by a hash into temporary files, so that equal rows, or rows of one key, are in the same file;
the files are compared one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from decimal import Decimal
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.engines.arrow.key_hash import key_hashes
from lakeward.engines.arrow.keys import KeyIndex, Positions, difference
from lakeward.engines.arrow.spill import Spill

_PARTS: Final = 32
_WRITTEN_AT_ONCE: Final = 2**20


class NetRows(NamedTuple):
    """Deleted rows, inserted rows, and updated rows with both images in the same order."""

    deleted: pa.Table
    before: pa.Table
    after: pa.Table
    inserted: pa.Table


def net_rows(
    before: Iterable[pa.RecordBatch],
    after: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    *,
    key: Sequence[str] = (),
    cancel: bool = True,
    memory: int = 256 * 2**20,
) -> Iterator[NetRows]:
    """Compare two streams of rows.

    Args:
        before: The rows that may have been deleted.
        after: The rows that may have been inserted.
        schema: The schema of both streams.
        key: Columns that identify a row; without them no updates are paired.
        cancel: Leave out rows that are in both streams.
        memory: Bytes of rows that may be in memory before they are split into temporary files.
    """
    with closing(Sides(schema, key, memory)) as sides:
        for batch in before:
            sides.add_before(batch)
        for batch in after:
            sides.add_after(batch)
        yield from sides.net(cancel=cancel)


def paired(gone: pa.Table, came: pa.Table, key: Sequence[str]) -> NetRows:
    """Pair rows of the same key, one to one; rows with a null in the key are not paired."""
    none = gone.slice(0, 0)
    if not key or not gone.num_rows or not came.num_rows:
        return NetRows(gone, none, none, came)
    found = KeyIndex([gone[k] for k in key]).find([came[k] for k in key])
    old, new = _one_to_one(found.partners, found.rows)
    return NetRows(
        _without(gone, old), gone.take(pa.array(old)), came.take(pa.array(new)), _without(came, new)
    )


class Sides:
    """Rows of both streams, added in any order: first in memory, then in temporary files by hash.

    The arguments are those of `net_rows`.
    """

    def __init__(self, schema: pa.Schema, key: Sequence[str], memory: int) -> None:
        self._key = tuple(key)
        self._schema = schema
        self._by = [n for n in (key or schema.names) if not _is_nested(schema.field(n).type)]
        self._memory = memory
        self._held: tuple[list[pa.RecordBatch], list[pa.RecordBatch]] = ([], [])
        self._size = 0
        self._spilled: tuple[list[Spill], list[Spill]] | None = None

    def add_before(self, batch: pa.RecordBatch) -> None:
        """Add rows that may have been deleted."""
        self._add(0, batch)

    def add_after(self, batch: pa.RecordBatch) -> None:
        """Add rows that may have been inserted."""
        self._add(1, batch)

    def net(self, *, cancel: bool = True) -> Iterator[NetRows]:
        """Yield the rows by which the sides differ; nothing can be added after that."""
        for old, new in self._parts():
            gone, came = difference(old, new) if cancel else (old, new)
            if gone.num_rows or came.num_rows:
                yield paired(gone, came, self._key)

    def close(self) -> None:
        """Delete the temporary files."""
        for side in self._spilled or ():
            for spill in side:
                spill.close()

    def _add(self, side: int, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        if self._spilled is not None:
            self._split(side, batch)
            return
        self._held[side].append(batch)
        self._size += batch.nbytes
        if self._size > self._memory and self._by:
            self._begin_spilling()

    def _parts(self) -> Iterator[tuple[pa.Table, pa.Table]]:
        if self._spilled is None:
            old, new = (pa.Table.from_batches(held, self._schema) for held in self._held)
            yield old, new
            return
        for old, new in zip(*self._spilled, strict=True):
            yield old.finish(), new.finish()
            old.release()
            new.release()

    def _begin_spilling(self) -> None:
        self._spilled = (self._files(), self._files())
        for side, held in enumerate(self._held):
            while held:
                self._split(side, held.pop(0))

    def _files(self) -> list[Spill]:
        return [Spill(self._schema, at_once=_WRITTEN_AT_ONCE) for _ in range(_PARTS)]

    def _split(self, side: int, batch: pa.RecordBatch) -> None:
        assert self._spilled is not None  # noqa: S101  `_begin_spilling` came first
        hashes, _ = key_hashes([_filled(batch.column(n)) for n in self._by])
        part = (hashes % np.uint64(_PARTS)).astype(np.int64)
        order = np.argsort(part, kind="stable")
        ends = np.searchsorted(part[order], np.arange(_PARTS + 1))
        rows = pa.Table.from_batches([batch]).take(pa.array(order))
        for n, spill in enumerate(self._spilled[side]):
            if ends[n + 1] > ends[n]:
                spill.write(rows.slice(ends[n], ends[n + 1] - ends[n]))


def _is_nested(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind))


def _filled(column: pa.Array) -> pa.Array:
    """Return the column with one fixed value for nulls, so that all nulls hash alike."""
    kind = column.type
    if not column.null_count:
        return column
    if pa.types.is_decimal(kind):
        return pc.fill_null(column, pa.scalar(Decimal(0), kind))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pc.fill_null(column, "")
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pc.fill_null(column, b"")
    return column


def _one_to_one(old: Positions, new: Positions) -> tuple[Positions, Positions]:
    """Pair old and new rows of a key in order, as many as both sides have."""
    if len(np.unique(old)) == len(old) and len(np.unique(new)) == len(new):
        return old, new
    taken_old: set[Any] = set()
    taken_new: set[Any] = set()
    pairs: list[tuple[int, int]] = []
    for one, other in zip(old.tolist(), new.tolist(), strict=True):
        if one not in taken_old and other not in taken_new:
            taken_old.add(one)
            taken_new.add(other)
            pairs.append((one, other))
    kept = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return kept[:, 0], kept[:, 1]


def _without(rows: pa.Table, places: Positions) -> pa.Table:
    kept = np.ones(rows.num_rows, dtype=bool)
    kept[places] = False
    return rows.filter(pa.array(kept))
