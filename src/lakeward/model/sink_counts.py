"""What the sinks of a lake object committed, by table and writer, and how old their rows are."""

from __future__ import annotations

import threading
from typing import Final, Protocol
from weakref import WeakSet

from lakeward.model.metrics import OTHER

_MOST: Final = 1000
"""How many pairs of table and writer are counted separately; later ones are counted together."""


class HasUncommitted(Protocol):
    """The type of an object that holds rows of a sink."""

    @property
    def uncommitted_seconds(self) -> float:
        """The age of the oldest rows that are not committed; 0 if there are none."""


class SinkCount:
    """The counts of one table and writer, over all sinks that the lake object opened for them."""

    def __init__(self) -> None:
        self.epochs = 0
        self.rows = 0
        self.bytes = 0
        self._lock = threading.Lock()
        self._queues: WeakSet[HasUncommitted] = WeakSet()

    def add(self, rows: int, size: int) -> None:
        """Count a committed epoch."""
        with self._lock:
            self.epochs += 1
            self.rows += rows
            self.bytes += size

    def follow(self, queue: HasUncommitted) -> None:
        """Include the rows of a queue in `uncommitted_seconds` while the queue exists."""
        with self._lock:
            self._queues.add(queue)

    @property
    def uncommitted_seconds(self) -> float:
        """The age of the oldest rows that are not committed; 0 if there are none."""
        with self._lock:
            queues = list(self._queues)
        return max((queue.uncommitted_seconds for queue in queues), default=0.0)


class SinkCounts:
    """The counts of all sinks of a lake object."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], SinkCount] = {}
        self._lock = threading.Lock()

    def of(self, table: str, writer: str) -> SinkCount:
        """Return the count of a table and writer."""
        with self._lock:
            known = (table, writer) in self._counts or len(self._counts) < _MOST
            return self._counts.setdefault(
                (table, writer) if known else (OTHER, OTHER), SinkCount()
            )

    def read(self) -> list[tuple[str, str, SinkCount]]:
        """Return tables, writers and their counts, in the order in which they were opened first.

        The order makes the sums of all beyond a limit grow only, as counters must.
        """
        with self._lock:
            return [(table, writer, count) for (table, writer), count in self._counts.items()]
