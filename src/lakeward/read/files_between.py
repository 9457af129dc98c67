"""The files by which two versions of a table differ: their totals, partitions, and pages of them.

The totals are read at once, by queries. Few files are read with them, so that they stay known when
the versions are vacuumed later; more are read when they are needed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Final, TypeVar

from lakeward.log import commits, differences, totals
from lakeward.log.database import Session
from lakeward.log.differences import PartitionSums, Side
from lakeward.log.totals import Sums
from lakeward.model.file import LoggedFile
from lakeward.model.row_counts import NO_ROWS, RowCounts, row_counts
from lakeward.read.describe import Totals
from lakeward.read.snapshot import TableSnapshot
from lakeward.read.totals import KnownTotals

_T = TypeVar("_T")
FEW: Final = 1000
"""So many files of so many versions are read at once."""
_MANY: Final = 20_000
_LARGE_SHARE: Final = 0.25


class FilesBetween:
    """The files by which a version of a table differs from an older one.

    Args:
        low: The older version, or the same one.
        high: The newer version.

    Raises:
        VersionNotFound: One of the versions is vacuumed; also when files are read later.
    """

    def __init__(self, low: TableSnapshot, high: TableSnapshot) -> None:
        self._low, self._high = low, high
        self._table_id = low.log_head.table_id
        self.sums, low_sums, high_sums = self._read(self._sums)
        self.low_totals, self.high_totals = _totals(low_sums), _totals(high_sums)
        count = sum(one.files for one in self.sums.values())
        self.is_few = count <= FEW and high.version - low.version <= FEW
        if self.is_few:
            _ = self.gained, self.lost, self.gained_partitions, self.lost_partitions, self.changed

    @cached_property
    def gained(self) -> tuple[LoggedFile, ...]:
        """The files that only the newer version has, in the order in which they were added."""
        return self.page(Side.GAINED)

    @cached_property
    def lost(self) -> tuple[LoggedFile, ...]:
        """The files that only the older version has, in the order in which they were added."""
        return self.page(Side.LOST)

    @cached_property
    def gained_partitions(self) -> tuple[PartitionSums, ...]:
        """The partitions of the files that only the newer version has."""
        return self._partitions(Side.GAINED)

    @cached_property
    def lost_partitions(self) -> tuple[PartitionSums, ...]:
        """The partitions of the files that only the older version has."""
        return self._partitions(Side.LOST)

    @cached_property
    def changed(self) -> RowCounts | None:
        """The rows that the commits in between changed; None if a commit does not record it."""
        return self._read(self._changed)

    def page(
        self, side: Side, *, most: int | None = None, after: tuple[int, int] = (-1, -1)
    ) -> tuple[LoggedFile, ...]:
        """Return files in the order in which they were added.

        Args:
            side: Which files.
            most: How many at most; all when None.
            after: `added` and `ordinal` of the file after which to begin.
        """
        if not self.sums[side].files:
            return ()

        def read(session: Session) -> tuple[LoggedFile, ...]:
            found = differences.page(
                session,
                *self._range,
                side,
                most=most,
                after=after,
                is_many=most is None or self._is_many(session, side),
            )
            return tuple(found)

        return self._read(read)

    def _partitions(self, side: Side) -> tuple[PartitionSums, ...]:
        if not self.sums[side].files:
            return ()
        return self._read(
            lambda session: tuple(differences.partitions(session, *self._range, side))
        )

    def _is_many(self, session: Session, side: Side) -> bool:
        """Return whether the first of the files are found soon among all those of the table."""
        files = self.sums[side].files
        if side is Side.GAINED:
            return files > _MANY or not totals.is_wide(session, *self._range)
        return files > _LARGE_SHARE * self.low_totals.files

    @property
    def _range(self) -> tuple[int, int, int]:
        return self._table_id, self._low.version, self._high.version

    def _read(self, read: Callable[[Session], _T]) -> _T:
        with self._low.context.database.read() as session:
            found = read(session)
            # After the rows were read: vacuum retires a version before it deletes rows of it.
            for version in (self._low, self._high):
                version._check_readable(session)
        return found

    def _sums(self, session: Session) -> tuple[dict[Side, Sums], Sums, Sums]:
        """Return the sums of both sides, and of both versions."""
        gained, lost = totals.between(session, *self._range)
        high = self._low.context.cache(KnownTotals).at(session, self._table_id, self._high.version)
        return {Side.GAINED: gained, Side.LOST: lost}, high.changed(lost, gained), high

    def _changed(self, session: Session) -> RowCounts | None:
        table_id, low, high = self._range
        total, unknown = NO_ROWS, set()
        for one in commits.history(
            session, table_id, low=low + 1, high=high, limit=max(1, high - low)
        ):
            counts = row_counts(one.info)
            if counts is None:
                unknown.add(one.version)
            else:
                total = total.plus(counts)
        if not unknown:
            return total
        found = self._by_files(session, unknown)
        return None if found is None else total.plus(found)

    def _by_files(self, session: Session, versions: set[int]) -> RowCounts | None:
        """Return the changed rows of commits that each only added or only removed files.

        None if one of them did both, or if a number of rows is not known.
        """
        within = self._table_id, min(versions) - 1, max(versions)
        came = differences.by_version(session, *within, Side.GAINED)
        went = differences.by_version(session, *within, Side.LOST)
        inserted, deleted = 0, 0
        for version in versions:
            new, old = came.get(version), went.get(version)
            if new is not None and old is not None:
                return None
            for one in (new, old):
                if one is not None and one.rows is None:
                    return None
            inserted += 0 if new is None else new.rows or 0
            deleted += 0 if old is None else old.rows or 0
        return RowCounts(inserted, 0, deleted)


def _totals(found: Sums) -> Totals:
    return Totals(found.files, found.size, found.live_rows)
