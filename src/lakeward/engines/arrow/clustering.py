"""Sorts any number of rows along a curve or by columns, in bounded memory.

A sample of the rows gives splitters that divide them into buckets of about equal size. Rows are
assigned to buckets as they are read; rows that do not fit in memory are kept in a temporary file.
Then the buckets are sorted one after the other, which gives the same order as one sort of all rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from lakeward.engines.arrow.curves import Codes, Ranks, hilbert, interleaved, rank_bits
from lakeward.engines.arrow.grouped import ascending, distinct_rows
from lakeward.engines.arrow.spill import SpilledNumbers

CODE: Final = "\0code"
_SAMPLE_ROWS: Final = 100_000
_MOST: Final = 2**16 - 1
_BUCKET_BYTES: Final = 24 * 2**20
_HELD_BYTES: Final = 192 * 2**20
"""The most bytes of unsorted rows in memory; beyond that, rows go to the temporary file."""


class Order(Protocol):
    """A sort order that maps each row to a number."""

    def codes(self, keys: pa.Table) -> Codes:
        """Return the sort number of each row, from the rows' key columns."""

    def sorted(self, rows: pa.Table) -> pa.Table:
        """Return one bucket's rows sorted; their column `CODE` has the sort numbers."""


class Curve:
    """A Z-order or Hilbert curve over columns."""

    def __init__(self, sample: pa.Table, *, is_hilbert: bool) -> None:
        self._bits = rank_bits(sample.num_columns)
        self._ranks = [Ranks(column, self._bits) for column in sample.columns]
        self._place = hilbert if is_hilbert else interleaved

    def codes(self, keys: pa.Table) -> Codes:
        """Return each row's position on the curve."""
        ranks = [r.of(c) for r, c in zip(self._ranks, keys.columns, strict=True)]
        return self._place(ranks, self._bits)

    def sorted(self, rows: pa.Table) -> pa.Table:
        """Return the rows sorted by their position on the curve."""
        order = np.argsort(rows.column(CODE).to_numpy(), kind="stable")
        return rows.drop_columns([CODE]).take(pa.array(order))


class Lexical:
    """The lexicographic order of columns; nulls first."""

    def __init__(self, sample: pa.Table) -> None:
        self._names = sample.column_names
        # Only whole keys divide buckets, so that equal rows of the first columns stay in order.
        distinct = distinct_rows(sample).combine_chunks()
        self._keys = distinct.take(self._order(distinct))

    def codes(self, keys: pa.Table) -> Codes:
        """Return, for each row, how many distinct keys of the sample are at or before its key."""
        count = self._keys.num_rows
        both = pa.concat_tables([self._keys, keys]).combine_chunks()
        order = self._order(both).to_numpy()
        is_sample = order < count
        below = np.cumsum(is_sample).astype(np.uint64)
        out = np.empty(keys.num_rows, dtype=np.uint64)
        out[order[~is_sample] - count] = below[~is_sample]
        return out

    def sorted(self, rows: pa.Table) -> pa.Table:
        """Return the rows sorted by the columns."""
        plain = rows.drop_columns([CODE])
        return plain.take(self._order(plain))

    def _order(self, rows: pa.Table) -> pa.Array:
        return ascending(rows.select(self._names))


def sample_of(keys: Iterable[pa.RecordBatch], rows: int, schema: pa.Schema) -> pa.Table:
    """Return a random sample of the rows in `keys`, large enough for splitters.

    `rows` is the number of rows in `keys`: if it is small, the sample is all of them.
    """
    share = min(1.0, _SAMPLE_ROWS / max(rows, 1))
    chance = np.random.default_rng(0)
    parts = []
    for batch in keys:
        table = pa.Table.from_batches([batch])
        if share < 1:
            count = int(chance.binomial(batch.num_rows, share))
            table = table.take(np.sort(chance.integers(0, max(batch.num_rows, 1), count)))
        parts.append(table)
    return pa.concat_tables([schema.empty_table(), *parts]).combine_chunks()


@dataclass
class Buckets:
    """Rows distributed to buckets by splitters; each bucket is sorted separately."""

    order: Order
    keys: Sequence[str]
    splitters: Codes
    _waiting: dict[int, list[pa.Table]] = field(default_factory=dict)
    _sizes: dict[int, int] = field(default_factory=dict)
    _schema: pa.Schema | None = None
    _spilled: SpilledNumbers | None = None
    _held: int = 0

    @classmethod
    def of(cls, order: Order, sample: pa.Table, size: int, least: int = 1) -> Buckets:
        """Make at least `least` buckets, for about `size` bytes of rows in memory."""
        count = min(_MOST, max(1, least, -(-size // _BUCKET_BYTES)))
        codes = np.sort(order.codes(sample))
        places = [len(codes) * n // count for n in range(1, count)] if len(codes) else []
        return cls(order, sample.column_names, np.unique(codes[places].astype(np.uint64)))

    @property
    def count(self) -> int:
        """Number of buckets."""
        return len(self.splitters) + 1

    def deal(self, batches: Iterable[pa.Table]) -> None:
        """Distribute rows to their buckets."""
        for table in batches:
            if not table.num_rows:
                continue
            codes = self.order.codes(table.select(self.keys))
            rows = table.append_column(CODE, pa.array(codes))
            self._schema = rows.schema
            if self.count == 1:
                self._add(0, rows)
                continue
            buckets = np.searchsorted(self.splitters, codes, side="right").astype(np.uint16)
            by_bucket = np.argsort(buckets, kind="stable")
            rows = rows.take(pa.array(by_bucket))
            ends = np.cumsum(np.bincount(buckets, minlength=self.count))
            start = 0
            for number, end in enumerate(ends.tolist()):
                if end > start:
                    self._add(number, rows.slice(start, end - start))
                start = end

    def sorted(self, number: int) -> pa.Table | None:
        """Remove the rows of a bucket and return them sorted; return None for an empty bucket."""
        parts = self._taken(number)
        if not parts:
            return None
        return self.order.sorted(pa.concat_tables(parts).combine_chunks())

    def size(self, number: int) -> int:
        """Return the size in bytes that all rows of a bucket have in memory, also if spilled."""
        return self._sizes.get(number, 0)

    def close(self) -> None:
        """Delete the temporary file of spilled rows, if there is one."""
        if self._spilled is not None:
            self._spilled.close()

    def _add(self, number: int, rows: pa.Table) -> None:
        self._waiting.setdefault(number, []).append(rows)
        self._sizes[number] = self._sizes.get(number, 0) + rows.nbytes
        self._held += rows.nbytes
        if self._held > _HELD_BYTES:
            self._spill()

    def _spill(self) -> None:
        if self._spilled is None:
            self._spilled = SpilledNumbers()
        for number, parts in self._waiting.items():
            rows = pa.concat_tables(parts).combine_chunks()
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, rows.schema) as writer:
                writer.write_table(rows)
            self._spilled.add(number, sink.getvalue().to_pybytes())
        self._waiting.clear()
        self._held = 0

    def _taken(self, number: int) -> list[pa.Table]:
        found = [] if self._spilled is None else self._spilled.of(number)
        parts = [pa.ipc.open_stream(data).read_all() for data in found]
        return [*parts, *self._waiting.pop(number, [])]


def file_groups(buckets: Buckets, rate: float, size: int) -> list[range]:
    """Return ranges of bucket numbers, each for one file of about `size` bytes.

    `rate` is the size on disk per byte in memory.
    """
    out, start, held = [], 0, 0.0
    for number in range(buckets.count):
        held += buckets.size(number) * rate
        if held >= size:
            out.append(range(start, number + 1))
            start, held = number + 1, 0.0
    if start < buckets.count:
        out.append(range(start, buckets.count))
    return out


def sorted_rows(buckets: Buckets, numbers: Iterable[int]) -> Iterator[pa.Table]:
    """Yield the sorted rows of each of the given buckets; skip empty buckets."""
    for number in numbers:
        rows = buckets.sorted(number)
        if rows is not None:
            yield rows
