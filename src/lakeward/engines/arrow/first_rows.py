"""Reads the first rows of an order, from as few files as possible.

Files are read in the order of the first row that each may have. Reading ends when all other files
begin behind the rows that were found. Rows that are equal by all keys keep the order of the table,
so the result is the beginning of a stable sort of all rows.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.model.file import LoggedFile
from lakeward.model.sorting import Place, SortKey, reach
from lakeward.model.types import Primitive
from lakeward.model.values import to_neutral

ReadFiles: TypeAlias = Callable[[Sequence[LoggedFile]], pa.RecordBatchReader]
"""Returns all rows of files, in the order of the files."""
_NUMBER: Final = "\0lakeward.file"
"""The name of a column with the number of the row's file; no column of a table has such a name."""
_HELD: Final = 65_536
"""So many rows are collected before those behind the limit are dropped."""
_FLOATS: Final = (Primitive("float"), Primitive("double"))


def first_rows(
    files: Sequence[LoggedFile],
    keys: Sequence[SortKey],
    limit: int | None,
    read: ReadFiles,
    kept: pc.Expression | None,
    *,
    is_counted: bool = True,
) -> pa.Table:
    """Return the first rows of files, in order.

    Args:
        files: The files, in the order of the table.
        keys: The order.
        limit: How many rows to return at most; all when None.
        read: Reads files, with the columns of the result, the keys and the condition.
        kept: Only rows for which this is true.
        is_counted: Whether `read` returns as many rows of a file as the log has counted. If not,
            files are read one by one, as rows of several could not be told apart.
    """
    found = _Found(keys, limit, read, kept, is_counted=is_counted)
    if not limit or not files:
        found.add(list(enumerate(files)) if limit is None else [])
        return found.rows()
    nears = [reach(f, keys[0]).near for f in files]
    waiting = sorted(range(len(files)), key=nears.__getitem__)
    size = 1 if kept is not None or not is_counted else _needed([files[n] for n in waiting], limit)
    while waiting:
        last = found.last()
        if last is not None:
            del waiting[bisect.bisect_right(waiting, last, key=nears.__getitem__) :]
        some = sorted(waiting[:size])
        if not some:
            break
        found.add([(n, files[n]) for n in some])
        del waiting[: len(some)]
        size *= 2
    return found.rows()


def _needed(files: Sequence[LoggedFile], limit: int) -> int:
    """Return how many of the files have as many rows as wanted; at least one."""
    rows = itertools.accumulate(f.file.live_rows or 0 for f in files)
    return 1 + sum(1 for _ in itertools.takewhile(lambda count: count < limit, rows))


class _Found:
    """The first ones of the rows that were read."""

    def __init__(
        self,
        keys: Sequence[SortKey],
        limit: int | None,
        read: ReadFiles,
        kept: pc.Expression | None,
        *,
        is_counted: bool,
    ) -> None:
        self._keys = keys
        self._is_counted = is_counted
        self._limit = limit
        self._read = read
        self._kept = kept
        self._tables: list[pa.Table] = []

    def add(self, files: Sequence[tuple[int, LoggedFile]]) -> None:
        """Read numbered files."""
        held = sum(t.num_rows for t in self._tables)
        most = _HELD if self._limit is None else max(_HELD, 2 * self._limit)
        for table in self._numbered(files):
            rows = table if self._kept is None else table.filter(self._kept)
            self._tables.append(rows)
            held += rows.num_rows
            if self._limit is not None and held > most:
                held = self._sorted().num_rows

    def last(self) -> Place | None:
        """Return the place of the last of the wanted rows; None if there are not enough yet."""
        rows = self._sorted() if self._tables else None
        if rows is None or self._limit is None or rows.num_rows < self._limit:
            return None
        key = self._keys[0]
        return _place(key, rows[key.field.name][self._limit - 1])

    def rows(self) -> pa.Table:
        """Return the rows, in order."""
        return self._sorted().drop_columns([_NUMBER])

    def _sorted(self) -> pa.Table:
        """Return the first of the rows so far, and drop the others."""
        rows = pa.concat_tables(self._tables)
        rows = rows.take(order_of(rows, self._keys, _NUMBER)[: self._limit])
        self._tables = [rows]
        return rows

    def _numbered(self, files: Sequence[tuple[int, LoggedFile]]) -> Iterator[pa.Table]:
        """Yield all rows of files, with the numbers of their files."""
        counts = [file.file.live_rows for _, file in files]
        if len(files) > 1 and (None in counts or not self._is_counted):
            for one in files:
                yield from self._numbered([one])
            return
        ends = np.cumsum([count or 0 for count in counts[:-1]])
        numbers = np.array([number for number, _ in files] or [0], np.int32)
        start = 0
        with self._read([file for _, file in files]) as reader:
            for batch in reader:
                places = np.arange(start, start + batch.num_rows)
                start += batch.num_rows
                own = pa.array(numbers[np.searchsorted(ends, places, side="right")], pa.int32())
                yield pa.Table.from_batches([batch]).append_column(_NUMBER, own)
            if start == 0:
                yield reader.schema.append(pa.field(_NUMBER, pa.int32())).empty_table()


def order_of(rows: pa.Table, keys: Sequence[SortKey], *others: str) -> pa.Array:
    """Return the positions of rows in their order; `others` are columns that follow the keys."""
    columns: dict[str, Any] = {}
    by: list[tuple[str, str]] = []
    for n, key in enumerate(keys):
        values = rows[key.field.name]
        if values.null_count or key.field.type in _FLOATS:
            columns[f"class {n}"] = _classes(values, key)
            by.append((f"class {n}", "ascending"))
        columns[f"key {n}"] = values
        by.append((f"key {n}", "descending" if key.descending else "ascending"))
    for name in others:
        columns[name] = rows[name]
        by.append((name, "ascending"))
    return pc.sort_indices(pa.table(columns), sort_keys=by)


def _classes(values: pa.ChunkedArray, key: SortKey) -> pa.ChunkedArray:
    """Return for each value whether it is before, among or behind the ordinary values."""
    found = pa.scalar(0, pa.int8())
    if key.field.type in _FLOATS:
        found = pc.if_else(pc.is_nan(values), pa.scalar(-1 if key.nan_first else 1), found)
    return pc.if_else(pc.is_null(values), pa.scalar(-2 if key.nulls_first else 2), found)


def _place(key: SortKey, value: pa.Scalar) -> Place:
    """Return the place of a value in the order of a key."""
    if not key.has_places and value.is_valid:
        return key.place("")
    if isinstance(value, pa.Date32Scalar | pa.TimestampScalar):
        # Not as Python's dates, which do not reach as far.
        return key.place(value.value)
    return key.place(to_neutral(key.field.type, value.as_py()))
