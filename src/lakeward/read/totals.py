"""Keeps the numbers of files, bytes and rows of tables, and computes those of other versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from lakeward.log import retired, sizes, totals
from lakeward.log.database import Session
from lakeward.log.sizes import Classes
from lakeward.log.totals import Sums

_T = TypeVar("_T")


class _Known(Generic[_T]):
    """What was counted of each table at one version, from which other versions are computed.

    So a table of many files is counted once, and after that only what commits changed.

    Args:
        count: Counts the files of a version.
        between: Counts the files that a version has and an older one has not, and the reverse.
        changed: Returns a count after files were added and others removed.
    """

    def __init__(
        self,
        count: Callable[[Session, int, int], _T],
        between: Callable[[Session, int, int, int], tuple[_T, _T]],
        changed: Callable[[_T, _T, _T], _T],
    ) -> None:
        self._count, self._between, self._changed = count, between, changed
        self._newest: dict[int, tuple[int, _T]] = {}

    def at(self, session: Session, table_id: int, version: int) -> _T:
        """Return the count of a version."""
        known = self._newest.get(table_id)
        found = None if known is None else self._other(session, table_id, *known, version)
        if found is None:
            found = self._count(session, table_id, version)
        if known is None or known[0] <= version:
            self._newest[table_id] = version, found
        return found

    def _other(
        self, session: Session, table_id: int, known: int, count: _T, version: int
    ) -> _T | None:
        """Return the count of another version by what changed; None if that cannot be known."""
        low, high = sorted((known, version))
        if low < high:
            gained, lost = self._between(session, table_id, low, high)
            added, removed = (gained, lost) if known < version else (lost, gained)
            count = self._changed(count, added, removed)
        # After the rows were read: vacuum retires a version before it deletes rows of it.
        is_gone = any(retired.is_retired(session, table_id, one) for one in {low, high})
        return None if is_gone else count


class _Stored(NamedTuple):
    version: int
    pruned_to: int
    size: int


class KnownTotals(_Known[Sums]):
    """Files, bytes and rows of each table at one version, and the bytes of all its versions."""

    def __init__(self) -> None:
        super().__init__(totals.at, totals.between, Sums.changed)
        self._stored: dict[int, _Stored] = {}

    def stored(self, session: Session, table_id: int, version: int) -> int:
        """Return the bytes of all files that versions up to this one added to the directory."""
        # Rows of the log that nothing can reach are deleted now and then, and count no more.
        pruned_to = retired.pruned_to(session, table_id)
        known = self._stored.get(table_id)
        size, before = 0, -1
        if known is not None and known.pruned_to == pruned_to and known.version <= version:
            size, before = known.size, known.version
        size += totals.stored(session, table_id, version, before)
        self._stored[table_id] = _Stored(version, pruned_to, size)
        return size


class KnownSizes(_Known[Classes]):
    """The size classes of each table's files at one version."""

    def __init__(self) -> None:
        super().__init__(sizes.at, sizes.between, sizes.changed)
