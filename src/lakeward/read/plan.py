"""The files that a read needs: pruned by partition and statistics in SQL, then exactly.

A predicate on indexed columns becomes a range of the statistics index, so a selective plan looks
at the files it returns and few others. What the index finds is checked once more against each
file's own bounds, and against those parts of the predicate that the index cannot see.
"""

from __future__ import annotations

from collections.abc import Iterator

from lakeward.log import files
from lakeward.log.database import Session
from lakeward.model.expression import Expression
from lakeward.model.file import DataFile, LoggedFile
from lakeward.model.prune import Bounds, always_matches, key_ranges, may_match

_EVERYTHING = (None, None)


def plan(
    session: Session,
    table_id: int,
    version: int,
    where: Expression | None = None,
    *,
    after: int = -1,
) -> Iterator[LoggedFile]:
    """The files of a version that may hold a row for which `where` is true.

    Args:
        session: To read with.
        table_id: The table.
        version: As of this version.
        where: None for all files.
        after: Only files added later than this version.
    """
    if where is None:
        yield from files.at(session, table_id, version, after=after)
        return
    found = _candidates(session, table_id, version, where, after)
    yield from (f for f in found if file_may_match(where, f.file))


def file_may_match(where: Expression, file: DataFile) -> bool:
    """Whether a file may hold a row for which `where` is true; never wrongly False."""
    return may_match(where, lambda field_id: _bounds(file, field_id))


def file_always_matches(where: Expression, file: DataFile) -> bool:
    """Whether `where` is surely true for every row of a file."""
    return always_matches(where, lambda field_id: _bounds(file, field_id))


def _candidates(
    session: Session, table_id: int, version: int, where: Expression, after: int
) -> Iterator[LoggedFile]:
    ranges = key_ranges(where)
    if not ranges:
        return files.at(session, table_id, version, after=after)
    field_id = min(ranges, key=lambda i: _width(*ranges[i]))
    low, high = ranges[field_id]
    if low is not None and high is not None and low > high:
        return iter(())
    return files.in_range(
        session, table_id, version, field_id=field_id, low=low, high=high, after=after
    )


def _width(low: int | None, high: int | None) -> float:
    """How selective a range looks: a point is best, a closed range next, an open one last."""
    if low is None or high is None:
        return float("inf")
    return float(high - low)


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
