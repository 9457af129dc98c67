"""The keys of data that is too large for one index: looked up block by block.

A block is a run of rows of the data. Each has an index of its own while all files are asked for its
keys; the pairs that are found wait in a temporary file until a file's turn comes. Files are left
out by the keys of each block, so data that is in the order of its keys is asked for little.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.engines.arrow.expression import computed
from lakeward.engines.arrow.keys import Pairs, Positions
from lakeward.engines.arrow.spill import Numbers
from lakeward.model.expressions.nodes import Expression
from lakeward.model.file import LoggedFile


@dataclass(frozen=True, slots=True)
class KeyBlocks:
    """The keys of data, `size` rows at a time; `what` names them in errors."""

    rows: pa.Table
    keys: Sequence[Expression]
    size: int
    what: str

    def __iter__(self) -> Iterator[tuple[int, list[pa.ChunkedArray]]]:
        """The first row of each block, and its keys."""
        wanted = {str(n): key for n, key in enumerate(self.keys)}
        for start in range(0, self.rows.num_rows, self.size):
            some = self.rows.slice(start, self.size)
            yield start, list(computed(some, wanted, self.what).values())

    def bounds(self) -> list[pa.ChunkedArray]:
        """The smallest and the largest value of every block, for each key."""
        found: list[list[pa.Array]] = [[] for _ in self.keys]
        for _, keys in self:
            for values, bounds in zip(keys, found, strict=True):
                span = pc.min_max(values)
                bounds.append(pa.array([span["min"], span["max"]], values.type))
        return [pa.chunked_array(bounds) for bounds in found]


class FoundPairs:
    """The pairs of rows of files and of data that have the same key; any thread may add some."""

    def __init__(self) -> None:
        self._numbers = Numbers()

    def add(self, file: LoggedFile, rows: Positions, partners: Positions) -> None:
        """Note pairs of rows of a file, by their positions in it, and of the data."""
        if len(rows):
            both = np.stack([rows, partners]).astype(np.int64)
            self._numbers.add((file.added, file.ordinal), both.tobytes())

    def close(self) -> None:
        """Delete the temporary file."""
        self._numbers.close()

    def of(self, file: LoggedFile) -> Pairs:
        """All pairs of a file, ordered by its rows, and by those of the data."""
        parts = [
            np.frombuffer(data, dtype=np.int64).reshape(2, -1)
            for data in self._numbers.of((file.added, file.ordinal))
        ]
        both = np.concatenate([np.empty((2, 0), dtype=np.int64), *parts], axis=1)
        order = np.lexsort((both[1], both[0]))
        return Pairs(both[0][order], both[1][order])


def pairs_among(pairs: Pairs, numbers: Positions) -> Pairs:
    """The pairs of rows at some positions of a file, ascending, by their places among these."""
    if not len(numbers):
        return Pairs(pairs.rows[:0], pairs.partners[:0])
    some = slice(*np.searchsorted(pairs.rows, [numbers[0], numbers[-1] + 1]))
    rows, partners = pairs.rows[some], pairs.partners[some]
    places = np.searchsorted(numbers, rows)
    # Rows that were left out when they were read cannot change.
    there = numbers[places] == rows
    return Pairs(places[there], partners[there])
