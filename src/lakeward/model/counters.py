"""Counters of events in this process."""

from __future__ import annotations

import threading
from collections import Counter


class Counters:
    """Counts by name, shared by threads."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def add(self, name: str, count: int = 1) -> None:
        """Count something."""
        with self._lock:
            self._counts[name] += count

    def read(self) -> dict[str, int]:
        """The counts so far, by name."""
        with self._lock:
            return dict(sorted(self._counts.items()))
