"""Row groups of files, and their rows by position, without those that deletion vectors delete."""

from __future__ import annotations

import bisect
from array import array
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

POSITION: Final = "\0position"
"""The name of the column of positions, which no table's column can have."""
_FOOTERS: Final = 8


@dataclass(frozen=True, slots=True)
class Part:
    """A file, or some of its row groups; `spans` has the first position and row count of each."""

    fragment: ds.ParquetFileFragment
    spans: Sequence[tuple[int, int]]


def parts_of(
    fragments: Sequence[ds.ParquetFileFragment],
    schema: pa.Schema,
    wheres: Sequence[pc.Expression | None],
    *,
    threads: bool,
    among: Sequence[int] | None = None,
) -> list[Part]:
    """Return for each file the row groups that may have a row for which its condition is true.

    With `among`, only row groups with one of these positions, ascending. With `threads`, several
    footers are read at once, for remote files.
    """
    complete(fragments, threads=threads)
    return [_part(f, schema, w, among) for f, w in zip(fragments, wheres, strict=True)]


def complete(fragments: Sequence[ds.ParquetFileFragment], *, threads: bool) -> None:
    """Read the footers of files, which their fragments keep; several at once with `threads`."""

    def read(fragment: ds.ParquetFileFragment) -> None:
        # This lets other threads of Python run; choosing row groups of a file unseen does not.
        fragment.ensure_complete_metadata()

    if threads and len(fragments) > 1:
        with ThreadPoolExecutor(_FOOTERS) as pool:
            list(pool.map(read, fragments))
    else:
        for fragment in fragments:
            read(fragment)


def masked(
    batches: Iterator[pa.RecordBatch],
    parts: Sequence[Part],
    deleted: Sequence[array[int]],
    *,
    numbered: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that are not deleted, before any condition is evaluated on them.

    Positions count deleted rows too, so the parts are read without a filter. `deleted` has the
    positions for each part, ascending, of the type code `Q`. With `numbered`, `POSITION` is a last
    column.
    """
    spans = _Spans(parts, deleted)
    for batch in batches:
        begin = 0
        while begin < batch.num_rows:
            start, gone, count = spans.take(batch.num_rows - begin)
            rows = batch.slice(begin, count)
            begin += count
            if numbered:
                rows = rows.append_column(POSITION, pa.arange(start, start + count))
            yield rows.filter(_stays(gone, start, count)) if gone else rows


class _Spans:
    """Assigns positions to the rows of consecutive batches."""

    def __init__(self, parts: Sequence[Part], deleted: Sequence[array[int]]) -> None:
        self._left = iter(
            (start, rows, gone)
            for part, gone in zip(parts, deleted, strict=True)
            for start, rows in part.spans
        )
        self._start, self._rows, self._gone = 0, 0, array("Q")

    def take(self, most: int) -> tuple[int, array[int], int]:
        """Return the first position of the next rows, the deleted ones among them, and their count.

        At most `most` rows are taken.
        """
        while not self._rows:
            self._start, self._rows, self._gone = next(self._left)
        count, start = min(most, self._rows), self._start
        low = bisect.bisect_left(self._gone, start)
        high = bisect.bisect_left(self._gone, start + count, lo=low)
        self._start, self._rows = start + count, self._rows - count
        return start, self._gone[low:high], count


def _part(
    fragment: ds.ParquetFileFragment,
    schema: pa.Schema,
    where: pc.Expression | None,
    among: Sequence[int] | None,
) -> Part:
    footer = fragment.metadata
    rows = [footer.row_group(i).num_rows for i in range(footer.num_row_groups)]
    starts = [0]
    for count in rows:
        starts.append(starts[-1] + count)
    chosen = fragment if where is None else fragment.subset(where, schema=schema)
    spans = {g.id: (starts[g.id], rows[g.id]) for g in chosen.row_groups}
    if among is not None:
        spans = {i: span for i, span in spans.items() if _meets(among, *span)}
        chosen = fragment.subset(row_group_ids=list(spans))
    return Part(chosen, list(spans.values()))


def _meets(among: Sequence[int], start: int, count: int) -> bool:
    place = bisect.bisect_left(among, start)
    return place < len(among) and among[place] < start + count


def _stays(gone: array[int], start: int, count: int) -> Any:
    """Return a mask that is True for each row that is not deleted."""
    whole = pa.Array.from_buffers(pa.uint64(), len(gone), [None, pa.py_buffer(gone)])
    numbers = whole.cast(pa.int64())
    places = pc.subtract(numbers, start)
    return pc.is_null(pc.inverse_permutation(places, max_index=count - 1, output_type=pa.int32()))
