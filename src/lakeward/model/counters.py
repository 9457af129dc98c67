"""Counters and timings of the operations of this process."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Final

BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the histogram classes of durations, in seconds; the last class has no bound."""


@dataclass(frozen=True, slots=True)
class Timing:
    """How long an operation took, over all its executions.

    Attributes:
        count: The number of executions.
        seconds: Their total duration.
        classes: How many took at most as long as each of `BOUNDS`, and longer than the one before;
            the last is the number of those beyond all bounds.
    """

    count: int
    seconds: float
    classes: tuple[int, ...]


class Counters:
    """Counts and timings by name, shared by threads."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._classes: defaultdict[str, list[int]] = defaultdict(lambda: [0] * (len(BOUNDS) + 1))
        self._lock = threading.Lock()

    def add(self, name: str, count: int = 1) -> None:
        """Add to the count of a name."""
        with self._lock:
            self._counts[name] += count

    def time(self, name: str, seconds: float) -> None:
        """Record a duration under a name."""
        with self._lock:
            self._classes[name][bisect_left(BOUNDS, seconds)] += 1
            self._seconds[name] += seconds

    def read(self) -> dict[str, int]:
        """Return the counts so far, by name."""
        with self._lock:
            return dict(sorted(self._counts.items()))

    def timings(self) -> dict[str, Timing]:
        """Return the timings so far, by name."""
        with self._lock:
            return {
                name: Timing(sum(classes), self._seconds[name], tuple(classes))
                for name, classes in sorted(self._classes.items())
            }
