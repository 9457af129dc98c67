"""The data of a merge, with the types of the table's columns.

Data that takes more memory than allowed, together with an index of its keys, is written to a
temporary file as it is read. Its keys are then looked up block by block: one block at a time has an
index, by which all files are searched, and the pairs found are written to a temporary file. Files
are pruned by the keys of each block, so data that is sorted by key reads few files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.engines.arrow.conform import conform
from lakeward.engines.arrow.expression import computed
from lakeward.engines.arrow.input import tables_of
from lakeward.engines.arrow.keys import Pairs, Positions
from lakeward.engines.arrow.spill import Spill, SpilledNumbers
from lakeward.errors import InvalidInput, SchemaMismatch
from lakeward.model.expressions.nodes import Expression
from lakeward.model.file import LoggedFile
from lakeward.model.schema import Schema

_INDEX_BYTES: Final = 200
"""The measured size of an index per row, including the tables by which it is looked up."""


@dataclass(frozen=True, slots=True)
class MergeData:
    """Rows to be merged, in memory or in a temporary file.

    Attributes:
        schema: Columns that are also in the table have the table's types; others have their own.
        extra: The names of the columns that are not in the table.
        block_rows: How many rows are indexed at a time; None for all of them.
    """

    rows: pa.Table
    schema: Schema
    extra: tuple[str, ...]
    block_rows: int | None = None
    spill: Spill | None = None


def source_of(data: Any, schema: Schema, table: str, memory: int) -> MergeData:
    """Return the rows of a user's data, which may have any form that `append` accepts.

    `memory` is the limit in bytes for the rows and an index of their keys.
    """
    coming = tables_of(data, _expected(data, schema), table)
    held, size = list[pa.Table](), 0
    for part in coming:
        held.append(part)
        size += part.nbytes + part.num_rows * _INDEX_BYTES
        if size > memory:
            break
    rows = _together(held or [schema.arrow.empty_table()], table)
    names = rows.column_names
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice is not None:
        what = f"The data for {table} has the column {twice!r} more than once."
        raise SchemaMismatch(what, table=table, columns=[twice])
    extra = tuple(n for n in names if n not in schema.by_name)
    own = Schema.from_arrow(pa.schema([rows.schema.field(n) for n in extra])) if extra else None
    known = [schema.by_name[n] if own is None or n not in extra else own.by_name[n] for n in names]
    # Required columns are checked in the rows that are written, not in those that are given.
    fields = tuple(replace(f, nullable=True, default=None) for f in known)
    found = Schema(fields, schema.last_id)
    block_rows = None if size <= memory else max(1, memory * rows.num_rows // size)
    empty = rows.slice(0, 0)
    del rows
    # The user has the table in memory anyway, so a copy in a file would save nothing.
    if block_rows is None or isinstance(data, pa.Table):
        fitting = [conform(part, found, table) for part in held] or [found.arrow.empty_table()]
        return MergeData(pa.concat_tables(fitting), found, extra, block_rows)
    spill = Spill(found.arrow)
    with ExitStack() as on_failure:
        on_failure.callback(spill.close)
        for part in chain(_taken(held), coming):
            _together([empty, part], table)
            spill.write(conform(part, found, table))
        on_failure.pop_all()
    return MergeData(spill.finish(), found, extra, block_rows, spill)


@dataclass(frozen=True, slots=True)
class KeyBlocks:
    """The keys of the source rows, in blocks of `size` rows; errors call them `what`."""

    rows: pa.Table
    keys: Sequence[Expression]
    size: int
    what: str

    def __iter__(self) -> Iterator[tuple[int, list[pa.ChunkedArray]]]:
        """Yield the first row number of each block, and its keys."""
        wanted = {str(n): key for n, key in enumerate(self.keys)}
        for start in range(0, self.rows.num_rows, self.size):
            some = self.rows.slice(start, self.size)
            yield start, list(computed(some, wanted, self.what).values())

    def bounds(self) -> list[pa.ChunkedArray]:
        """Return, for each key, the smallest and the largest value of every block."""
        found: list[list[pa.Array]] = [[] for _ in self.keys]
        for _, keys in self:
            for values, bounds in zip(keys, found, strict=True):
                span = pc.min_max(values)
                bounds.append(pa.array([span["min"], span["max"]], values.type))
        return [pa.chunked_array(bounds) for bounds in found]


class FoundPairs:
    """Pairs of a row of a file and a source row with the same key; any thread may add pairs."""

    def __init__(self) -> None:
        self._numbers = SpilledNumbers()

    def add(self, file: LoggedFile, rows: Positions, partners: Positions) -> None:
        """Add pairs: positions of rows in a file, and of the source rows with the same key."""
        if len(rows):
            both = np.stack([rows, partners]).astype(np.int64)
            self._numbers.add((file.added, file.ordinal), both.tobytes())

    def close(self) -> None:
        """Delete the temporary file."""
        self._numbers.close()

    def of(self, file: LoggedFile) -> Pairs:
        """Return all pairs of a file, sorted by position in the file, then by source row."""
        parts = [
            np.frombuffer(data, dtype=np.int64).reshape(2, -1)
            for data in self._numbers.of((file.added, file.ordinal))
        ]
        both = np.concatenate([np.empty((2, 0), dtype=np.int64), *parts], axis=1)
        order = np.lexsort((both[1], both[0]))
        return Pairs(both[0][order], both[1][order])


def pairs_among(pairs: Pairs, numbers: Positions) -> Pairs:
    """Return the pairs whose target row is at one of the positions `numbers`, which ascend.

    In the result, `rows` has indices into `numbers` instead of positions in the file.
    """
    if not len(numbers):
        return Pairs(pairs.rows[:0], pairs.partners[:0])
    some = slice(*np.searchsorted(pairs.rows, [numbers[0], numbers[-1] + 1]))
    rows, partners = pairs.rows[some], pairs.partners[some]
    places = np.searchsorted(numbers, rows)
    # Rows that were left out when they were read cannot change.
    there = numbers[places] == rows
    return Pairs(places[there], partners[there])


def _taken(parts: list[pa.Table]) -> Iterator[pa.Table]:
    """Yield the parts in order, removing each from the list so that its memory can be freed."""
    while parts:
        yield parts.pop(0)


def _together(parts: list[pa.Table], table: str) -> pa.Table:
    try:
        return pa.concat_tables(parts)
    except pa.ArrowException as error:
        what = f"The batches of data for {table} have different columns: {error}."
        raise SchemaMismatch(what, hint="Give them one schema.", table=table) from error


def _expected(data: Any, schema: Schema) -> pa.Schema:
    """Return the types for plain Python values: the table's, or inferred for other columns."""
    found = list(schema.arrow)
    for name, values in _plain(data):
        if name in schema.by_name or not isinstance(name, str):
            continue
        try:
            found.append(pa.field(name, pa.array(values).type))
        except (pa.ArrowException, TypeError, ValueError) as error:
            what = f"Column {name!r} of the data has values of no one type: {error}."
            raise InvalidInput(what, hint="Give an Arrow table.", column=name) from error
    return pa.schema(found)


def _plain(data: Any) -> Iterator[tuple[Any, Sequence[Any]]]:
    if isinstance(data, Mapping):
        yield from ((name, list(values)) for name, values in data.items())
    elif isinstance(data, list) and data and all(isinstance(row, Mapping) for row in data):
        names = dict.fromkeys(name for row in data for name in row)
        yield from ((name, [row.get(name) for row in data]) for name in names)
