"""The rows of a file part by part, so that memory holds a part however large the file is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from lakeward.engines.arrow.keys import Positions, picked
from lakeward.write.rows.find import Found

_RUNS: Final = 100
PART_BYTES: Final = 64 * 2**20
"""Rows of this size are worked on together; a file of the usual size is one part or two."""


@dataclass(frozen=True, slots=True)
class FileRows:
    """Rows of a file, and what becomes of them.

    Attributes:
        whole: All rows of a part of the file, or those that change.
        found: What changes, by positions among these rows.
        after: The rows that were updated, as they become, in the order of `found`.
    """

    whole: pa.Table
    found: Found
    after: pa.Table

    def kept(self) -> pa.Table:
        """The rows that stay as they are."""
        return rows_without(self.whole, self.found.gone)

    def before(self) -> pa.Table:
        """The rows that were updated, as they were, in the order of `after`."""
        places = [u.rows for u in self.found.updated]
        return picked(self.whole, np.concatenate([np.empty(0, dtype=np.int64), *places]))

    def deleted(self) -> pa.Table:
        """The rows that are gone."""
        return picked(self.whole, self.found.deleted)


def rows_without(rows: pa.Table, gone: Positions) -> pa.Table:
    """The rows except those at some positions, which are ascending."""
    if not len(gone):
        return rows
    breaks = np.flatnonzero(np.diff(gone) > 1)
    if len(breaks) < _RUNS:
        # The rows between few runs need not be copied.
        starts = [0, *(gone[[*breaks, len(gone) - 1]] + 1).tolist()]
        ends = [*gone[[0, *(breaks + 1)]].tolist(), rows.num_rows]
        return pa.concat_tables([rows.slice(a, b - a) for a, b in zip(starts, ends, strict=True)])
    stays = np.ones(rows.num_rows, dtype=bool)
    stays[gone] = False
    return rows.filter(pa.array(stays))


def by_parts(batches: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """Rows as tables of about `PART_BYTES`, in order; at least one, which may be empty."""
    waiting: list[pa.RecordBatch] = []
    size, empty = 0, True
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= PART_BYTES:
            yield pa.Table.from_batches(waiting, batches.schema)
            waiting, size, empty = [], 0, False
    if waiting or empty:
        yield pa.Table.from_batches(waiting, batches.schema)
