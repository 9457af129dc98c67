"""Keeps the numbers of files, bytes and rows of tables, and computes those of other versions."""

from __future__ import annotations

import threading
from typing import NamedTuple

from lakeward.log import retired, sizes, totals
from lakeward.log.database import Session
from lakeward.log.sizes import Classes
from lakeward.log.totals import Sums


class _Stored(NamedTuple):
    version: int
    pruned_to: int
    size: int


class KnownTotals:
    """The totals of each table at one version, from which those of other versions are computed.

    So a table of many files is counted once, and after that only what commits changed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: dict[int, tuple[int, Sums]] = {}
        self._stored: dict[int, _Stored] = {}

    def at(self, session: Session, table_id: int, version: int) -> Sums:
        """Return the sums over the files of a version."""
        known = self._sums.get(table_id)
        found = None if known is None else _other(session, table_id, known, version)
        if found is None:
            found = totals.at(session, table_id, version)
        with self._lock:
            if known is None or known[0] <= version:
                self._sums[table_id] = version, found
        return found

    def stored(self, session: Session, table_id: int, version: int) -> int:
        """Return the bytes of all files that versions up to this one added to the directory."""
        # Rows of the log that nothing can reach are deleted now and then, and count no more.
        pruned_to = retired.pruned_to(session, table_id)
        known = self._stored.get(table_id)
        size, before = 0, -1
        if known is not None and known.pruned_to == pruned_to and known.version <= version:
            size, before = known.size, known.version
        size += totals.stored(session, table_id, version, before)
        with self._lock:
            self._stored[table_id] = _Stored(version, pruned_to, size)
        return size


class KnownSizes:
    """The size classes of each table's files at one version, brought up to newer versions."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, Classes]] = {}

    def at(self, session: Session, table_id: int, version: int) -> Classes:
        """Return the size classes of the files of a version."""
        before, found = self._known.get(table_id, (version + 1, ()))
        if before < version:
            found = sizes.changed(found, *sizes.between(session, table_id, before, version))
        # As in `KnownTotals`: after the rows were read.
        if before > version or retired.is_retired(session, table_id, before):
            found = sizes.at(session, table_id, version)
        self._known[table_id] = version, found
        return found


def _other(session: Session, table_id: int, known: tuple[int, Sums], version: int) -> Sums | None:
    """Return the sums of another version by what changed; None if that cannot be known."""
    before, sums = known
    low, high = sorted((before, version))
    if before != version:
        gained, lost = totals.between(session, table_id, low, high)
        forward = before < version
        sums = sums.changed(gained, lost) if forward else sums.changed(lost, gained)
    # After the rows were read: vacuum retires a version before it deletes rows of it.
    is_gone = any(retired.is_retired(session, table_id, one) for one in {low, high})
    return None if is_gone else sums
