"""Finds the files that a read needs: pruned by partition and statistics in SQL, then exactly.

A predicate on indexed columns becomes a range of the statistics index, so a selective plan reads
few rows besides those it returns. Each file of the result is then checked by its own bounds, with
the whole predicate. `to_prune_by` adds what a predicate on a column implies for partition values
that are derived from the column.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lakeward.log import files
from lakeward.log.database import Session
from lakeward.model.definition import Definition
from lakeward.model.expressions.nodes import Expression
from lakeward.model.expressions.projection import implied
from lakeward.model.expressions.prune import Bounds, Range, always_matches, key_ranges, may_match
from lakeward.model.file import DataFile, LoggedFile

_COUNTED: Final = 1_000


def plan(
    session: Session,
    table_id: int,
    version: int,
    where: Expression | None = None,
    *,
    after: int = -1,
) -> Iterator[LoggedFile]:
    """Yield the files of a version that may have a row for which `where` is true; all when None.

    `where` comes from `to_prune_by`. With `after`, only files added later than that version.
    """
    if where is None:
        yield from files.at(session, table_id, version, after=after)
        return
    found = _candidates(session, table_id, version, where, after)
    yield from (f for f in found if file_may_match(where, f.file))


def to_prune_by(where: Expression | None, definition: Definition) -> Expression | None:
    """Return the condition to prune files by: with what it implies for derived partition values.

    Rows are filtered by the condition itself: derived partition values are not always columns.
    """
    return None if where is None else implied(where, definition)


def file_may_match(where: Expression, file: DataFile) -> bool:
    """Return whether a file may have a row for which `where` is true; never wrongly False."""
    return may_match(where, lambda field_id: _bounds(file, field_id))


def file_always_matches(where: Expression, file: DataFile) -> bool:
    """Return whether `where` is certainly true for every row of a file."""
    return always_matches(where, lambda field_id: _bounds(file, field_id))


def _candidates(
    session: Session, table_id: int, version: int, where: Expression, after: int
) -> Iterator[LoggedFile]:
    ranges = key_ranges(where)
    if not ranges:
        return files.at(session, table_id, version, after=after)
    if any(low is not None and high is not None and low > high for low, high in ranges.values()):
        return iter(())
    field_id = _most_selective(session, table_id, ranges)
    low, high = ranges[field_id]
    return files.in_range(
        session, table_id, version, field_id=field_id, low=low, high=high, after=after
    )


def _most_selective(session: Session, table_id: int, ranges: dict[int, Range]) -> int:
    """Return the field whose range has the fewest files, counted up to a limit."""
    if len(ranges) == 1:
        return next(iter(ranges))
    counts: dict[int, int] = {}
    most = _COUNTED
    for field_id, (low, high) in ranges.items():
        found = files.count_in_range(
            session, table_id, field_id=field_id, low=low, high=high, most=most
        )
        counts[field_id] = found
        most = min(most, max(found, 1))
    return min(counts, key=lambda i: counts[i])


def _bounds(file: DataFile, field_id: int) -> Bounds | None:
    if field_id in file.partition:
        value = file.partition[field_id]
        missing = file.rows if value is None else 0
        return Bounds(value, value, missing, file.rows)
    stats = file.stats
    if stats is None:
        return None
    return Bounds(
        stats.minimum.get(field_id),
        stats.maximum.get(field_id),
        stats.nulls.get(field_id),
        file.rows,
    )
