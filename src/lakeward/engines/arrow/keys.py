"""Finds rows by their keys or positions, and the rows by which two tables differ."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.engines.arrow.grouped import distinct_rows

Positions: TypeAlias = npt.NDArray[np.int64]
_SIDE = "\0side"
_PLACE = "\0place"


def distinct(tables: Iterable[pa.Table], key: Sequence[str]) -> pa.Table:
    """Return every key of some tables once, without keys that have nulls."""
    keys = pa.concat_tables([table.select(key) for table in tables])
    for name in key:
        keys = keys.filter(pc.is_valid(keys[name]))
    return distinct_rows(keys)


def first_rows(columns: Sequence[pa.ChunkedArray]) -> Positions:
    """Return the position of the first row of each key; no key has nulls."""
    names = [str(n) for n in range(len(columns))]
    keys = pa.table([_comparable(c) for c in columns], names=names)
    placed = keys.append_column(_PLACE, pa.array(np.arange(keys.num_rows)))
    groups = placed.group_by(names).aggregate([(_PLACE, "min")])
    return np.asarray(groups[f"{_PLACE}_min"].to_numpy(), dtype=np.int64)


def split(rows: pa.Table, keys: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the rows whose key is among some keys, and the others, in their order."""
    is_among = among(rows, keys)
    return rows.filter(pa.array(is_among)), rows.filter(pa.array(~is_among))


def among(rows: pa.Table, keys: pa.Table) -> npt.NDArray[np.bool_]:
    """Return for each row whether its key is among some keys."""
    found = KeyIndex(keys.columns).find([rows[n] for n in keys.column_names])
    is_among = np.zeros(rows.num_rows, dtype=bool)
    is_among[found.rows] = True
    return is_among


def span(keys: pa.Table) -> dict[str, tuple[Any, Any]]:
    """Return the smallest and the largest value of each column, as Python values."""
    out = {}
    for name in keys.column_names:
        found = pc.min_max(keys[name]).as_py()
        out[name] = (found["min"], found["max"])
    return out


@dataclass(frozen=True, slots=True)
class Pairs:
    """Positions of rows with the same key: `rows` were looked up, `partners` are in the index."""

    rows: Positions
    partners: Positions


class KeyIndex:
    """The keys of a table's rows, looked up by hash in bulk, by any number of threads.

    Keys are compared as in SQL: a key with a null equals no other; NaN equals itself, 0.0 equals
    -0.0. The index has a small whole number for each key, column after column, so that keys of any
    types and number of columns are found without Python objects for rows.
    """

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
        """Return the pairs of rows with the same key: of these columns, and of the index."""
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
        """Store which rows have each code; return whether every code has one row."""
        there = np.flatnonzero(codes >= 0)
        self._order = there[np.argsort(codes[there], kind="stable")]
        counts = np.bincount(codes[there])
        self._starts = np.concatenate(([0], np.cumsum(counts)))
        return bool((counts <= 1).all())


def _codes(column: pa.ChunkedArray, values: pa.Array) -> Positions:
    """Return the position of each value among the known ones; -1 for unknown values and nulls."""
    found = pc.index_in(column, value_set=values, skip_nulls=True)
    return np.asarray(pc.fill_null(found, -1).to_numpy(), dtype=np.int64)


def _joined(left: Positions, right: Positions, count: int) -> Positions:
    return np.where((left < 0) | (right < 0), -1, left * count + right)


def _folded(codes: Positions, known: Positions) -> Positions:
    """Replace codes by their positions among the known ones, so that they remain small."""
    if not len(known):
        return np.full(len(codes), -1, dtype=np.int64)
    places = np.minimum(np.searchsorted(known, codes), len(known) - 1)
    return np.where(known[places] == codes, places, -1)


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_floating(column.type):
        return column
    # A hash tells -0.0 from 0.0, and one NaN from another; a sum with 0.0 is the same of zeros.
    added = pc.add(column, pa.scalar(0.0, column.type))
    return pc.if_else(pc.is_nan(added), pa.scalar(float("nan"), column.type), added)


def picked(rows: pa.Table, places: Positions) -> pa.Table:
    """Return the rows at some positions, in the order of the positions.

    Arrow's own `take` first copies all chunks of the table into one, even for few rows.
    """
    if len(places) > 1 and (places[1:] < places[:-1]).any():
        order = np.argsort(places, kind="stable")
        back = np.empty(len(order), dtype=np.int64)
        back[order] = np.arange(len(order))
        return picked(rows, places[order]).take(pa.array(back))
    parts = []
    start = 0
    for batch in rows.to_batches():
        low, high = np.searchsorted(places, [start, start + batch.num_rows])
        if high > low:
            parts.append(batch.take(pa.array(places[low:high] - start)))
        start += batch.num_rows
    return pa.Table.from_batches(parts, rows.schema)


def difference(before: pa.Table, after: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the surplus rows of `before` and of `after`, each as often as its surplus."""
    rows = pa.concat_tables([before, after])
    keys = _groupable(rows)
    names = keys.column_names
    side = np.concatenate([np.ones(before.num_rows), -np.ones(after.num_rows)]).astype(np.int64)
    places = np.arange(rows.num_rows)
    marked = keys.append_column(_SIDE, pa.array(side)).append_column(_PLACE, pa.array(places))
    groups = marked.group_by(names, use_threads=False).aggregate([(_SIDE, "sum"), (_PLACE, "min")])
    surplus = groups[f"{_SIDE}_sum"].to_numpy()
    first = groups[f"{_PLACE}_min"].to_numpy()
    return (
        rows.take(pa.array(np.repeat(first, np.maximum(surplus, 0)))),
        rows.take(pa.array(np.repeat(first, np.maximum(-surplus, 0)))),
    )


def count_differing(left: pa.ChunkedArray, right: pa.ChunkedArray) -> int:
    """Return in how many places two columns differ; null equals null, and NaN equals NaN."""
    both = _plain(pa.chunked_array([*left.chunks, *right.chunks], type=left.type))
    old, new = both.slice(0, len(left)), both.slice(len(left))
    differs = pc.fill_null(pc.not_equal(old, new), False)
    differs = pc.or_(differs, pc.xor(pc.is_null(old), pc.is_null(new)))
    if _floats(both.type):
        same = pc.fill_null(pc.and_(pc.is_nan(old), pc.is_nan(new)), False)
        differs = pc.and_not(differs, same)
    return pc.sum(differs).as_py() or 0


def equal_rows(left: pa.Table, right: pa.Table) -> tuple[Positions, Positions]:
    """Pair equal rows of two tables, each row once; return their positions in both, ascending."""
    keys = _groupable(pa.concat_tables([left, right]))
    placed = keys.append_column(_PLACE, pa.array(np.arange(keys.num_rows)))
    groups = placed.group_by(keys.column_names, use_threads=False).aggregate([(_PLACE, "list")])
    lists = groups[f"{_PLACE}_list"].combine_chunks()
    places = np.asarray(lists.flatten().to_numpy(), dtype=np.int64)
    group = np.repeat(np.arange(len(lists)), pc.list_value_length(lists).to_numpy())
    is_left = places < left.num_rows
    sides = []
    for is_own in (is_left, ~is_left):
        own, others = group[is_own], np.bincount(group[~is_own], minlength=len(lists))
        # The rows of a group follow each other, so this is a row's number in its group.
        number = np.arange(len(own)) - np.searchsorted(own, own)
        sides.append(np.sort(places[is_own][number < others[own]]))
    return sides[0], sides[1] - left.num_rows


def _groupable(rows: pa.Table) -> pa.Table:
    """Return rows whose columns Arrow can group by, under numbers as names."""
    names = [str(n) for n in range(rows.num_columns)]
    return pa.table([_plain(c) for c in rows.columns], names=names)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values that Arrow can group by; equal nested values become equal numbers."""
    if not pa.types.is_nested(column.type):
        return _comparable(column)
    counter = itertools.count()
    known: dict[str, int] = {}
    numbers = [known.setdefault(repr(v), next(counter)) for v in column.to_pylist()]
    return pa.chunked_array([pa.array(numbers, pa.int64())])


def _floats(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind))
