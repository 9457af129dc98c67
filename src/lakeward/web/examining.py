"""The health of tables with very many files, examined in the background.

To examine a table, all its files are read from the log, which takes seconds for a million files. So
a page shows the last result, with its version, and asks again until the newest one is there.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lakeward.lake.records import Health

if TYPE_CHECKING:
    from lakeward.lake.table import Table

MANY_FILES: Final = 5000
"""Tables with more files are examined in the background."""
_REST: Final = 10
"""A table is not examined again before this many times the time that it took."""
_LOG: Final = logging.getLogger("lakeward.web")


@dataclass(frozen=True, slots=True)
class Packing:
    """What packing the files of a table would do, in all.

    Attributes:
        units: How many units of work.
        files: How many files they rewrite.
        reads: Bytes that they read.
        writes: Bytes that they write.
    """

    units: int
    files: int
    reads: int
    writes: int


@dataclass(frozen=True, slots=True)
class Examined:
    """The health of a table, and what packing its files would do.

    Attributes:
        health: The health, with the version that was examined.
        plan: What packing would do.
        until: The moment, by the monotonic clock, before which it is not examined again.
    """

    health: Health
    plan: Packing
    until: float = 0.0


class Examinations:
    """Examines small tables at once, and one large table at a time in a thread."""

    def __init__(self) -> None:
        self._known: dict[str, Examined] = {}
        self._busy = threading.Lock()

    def has_many_files(self, table: Table) -> bool:
        """Return whether a table is examined in the background."""
        return table.totals().files > MANY_FILES

    def of(self, table: Table) -> Examined | None:
        """Return a table's health, of a large table the last known; None if none is known yet."""
        if not self.has_many_files(table):
            return _examined(table)
        details = table.at().details()
        found = self._known.get(details.uuid)
        is_newest = found is not None and found.health.version == details.version
        is_due = found is None or time.monotonic() >= found.until
        if not is_newest and is_due and self._busy.acquire(blocking=False):
            threading.Thread(target=self._examine, args=(table, details.uuid), daemon=True).start()
        return found

    def _examine(self, table: Table, uuid: str) -> None:
        began = time.monotonic()
        try:
            found = _examined(table)
            ended = time.monotonic()
            until = ended + _REST * (ended - began)
            self._known[uuid] = Examined(found.health, found.plan, until)
        except Exception:  # noqa: BLE001  the next page starts another one
            _LOG.info("The health of a table could not be examined.")
        finally:
            self._busy.release()


def _examined(table: Table) -> Examined:
    health, plan = table.health(), table.optimize(dry_run=True).plan
    return Examined(health, Packing(len(plan.units), plan.files, plan.reads, plan.writes))
