"""Rows of one table found by the keys of another: an index of keys, asked in bulk.

A key is a number of columns, compared as SQL compares: a key with a missing value equals none, and
of floating numbers NaN equals itself and 0.0 equals -0.0. The index holds a small whole number for
each key, column after column, so that keys of any number of columns and of any types are looked up
by hash, without a row ever becoming a Python object. It may be asked by several threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Positions: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Rows that have the same key, ordered by the rows that were asked for.

    Attributes:
        rows: Of the table that was asked for.
        partners: Of the table that the index was made of.
    """

    rows: Positions
    partners: Positions


class KeyIndex:
    """The keys of a table's rows."""

    def __init__(self, columns: Sequence[pa.ChunkedArray]) -> None:
        self._values: list[pa.Array] = []
        self._folds: list[Positions] = []
        codes = np.empty(0, dtype=np.int64)
        for n, column in enumerate(map(_comparable, columns)):
            values = pc.unique(column.drop_null())
            self._values.append(values)
            found = _codes(column, values)
            if n:
                codes = _joined(codes, found, len(values))
                known = np.unique(codes[codes >= 0])
                self._folds.append(known)
                codes = _folded(codes, known)
            else:
                codes = found
        self.is_unique = self._number(codes)

    def find(self, columns: Sequence[pa.ChunkedArray]) -> Pairs:
        """The pairs of rows that have the same key."""
        codes = np.empty(0, dtype=np.int64)
        for n, (column, values) in enumerate(zip(columns, self._values, strict=True)):
            found = _codes(_comparable(column), values)
            if n:
                found = _folded(_joined(codes, found, len(values)), self._folds[n - 1])
            codes = found
        rows = np.flatnonzero(codes >= 0)
        hits = codes[rows]
        if self.is_unique:
            return Pairs(rows, self._order[self._starts[hits]])
        counts = self._starts[hits + 1] - self._starts[hits]
        first = np.repeat(self._starts[hits], counts)
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return Pairs(np.repeat(rows, counts), self._order[first + within])

    def _number(self, codes: Positions) -> bool:
        """Note for each code which rows have it; whether that is one row each."""
        there = np.flatnonzero(codes >= 0)
        self._order = there[np.argsort(codes[there], kind="stable")]
        counts = np.bincount(codes[there])
        self._starts = np.concatenate(([0], np.cumsum(counts)))
        return bool((counts <= 1).all())


def _codes(column: pa.ChunkedArray, values: pa.Array) -> Positions:
    """The place of each value among the known ones; -1 for others, and for what is missing."""
    found = pc.index_in(column, value_set=values, skip_nulls=True)
    return np.asarray(pc.fill_null(found, -1).to_numpy(), dtype=np.int64)


def _joined(left: Positions, right: Positions, count: int) -> Positions:
    return np.where((left < 0) | (right < 0), -1, left * count + right)


def _folded(codes: Positions, known: Positions) -> Positions:
    """Codes as their places among the known ones, so that they stay small."""
    if not len(known):
        return np.full(len(codes), -1, dtype=np.int64)
    places = np.minimum(np.searchsorted(known, codes), len(known) - 1)
    return np.where(known[places] == codes, places, -1)


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_floating(column.type):
        return column
    # A hash tells -0.0 from 0.0; their sum with 0.0 is the same.
    return pc.add(column, pa.scalar(0.0, column.type))
