"""Waiters for new transactions: woken by the database, or polling with growing pauses."""

from __future__ import annotations

import time
from typing import Final

from lakeward.log import positions
from lakeward.log.database import Database, Waiter

_SHORTEST: Final = 0.002
_LONGEST: Final = 0.25
_GROWTH: Final = 1.5


def waiter(database: Database) -> Waiter:
    """Return a waiter for new transactions of a lake."""
    return database.waiter() or PollingWaiter(database)


class PollingWaiter(Waiter):
    """Polls the newest position, at first often, then four times a second."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._seen = positions.NOWHERE

    def wait(self, seconds: float) -> None:
        """Return when the newest position has changed, or after this many seconds."""
        deadline = time.monotonic() + seconds
        pause = _SHORTEST
        while True:
            with self._database.read() as session:
                newest = positions.last(session)
            left = deadline - time.monotonic()
            if newest != self._seen or left <= 0:
                self._seen = newest
                return
            time.sleep(min(pause, left))
            pause = min(pause * _GROWTH, _LONGEST)
