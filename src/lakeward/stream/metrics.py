"""What a sink has done so far, in numbers."""

from __future__ import annotations

import threading
from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, slots=True)
class SinkMetrics:
    """Counts since the sink was opened, and what waits in it now.

    Attributes:
        written_batches: Calls of `write` that were accepted.
        written_rows: Rows in them.
        written_bytes: Their size in memory.
        refused_batches: Calls of `write` whose rows did not fit.
        queued_rows: Rows that wait to be staged or are being staged now.
        queued_bytes: Their size in memory.
        queued_bytes_most: The most there ever was.
        waits: How often `write` had to wait for room.
        wait_seconds: For how long in all.
        flushes: How often rows were written as files.
        flushed_rows: Rows in them, those of discarded epochs too.
        flushed_bytes: Their size in memory.
        flush_seconds: Time spent on it, in all threads.
        commits: Epochs that were committed.
        commit_seconds: Time spent in `commit_epoch` for them.
        commit_seconds_most: The longest of them.
        replays: Epochs that had been committed before.
        failures: Epochs that could not be committed, and `discard`s.
    """

    written_batches: int = 0
    written_rows: int = 0
    written_bytes: int = 0
    refused_batches: int = 0
    queued_rows: int = 0
    queued_bytes: int = 0
    queued_bytes_most: int = 0
    waits: int = 0
    wait_seconds: float = 0.0
    flushes: int = 0
    flushed_rows: int = 0
    flushed_bytes: int = 0
    flush_seconds: float = 0.0
    commits: int = 0
    commit_seconds: float = 0.0
    commit_seconds_most: float = 0.0
    replays: int = 0
    failures: int = 0


class Meter:
    """Counts for `SinkMetrics`, from any thread."""

    def __init__(self) -> None:
        self._values: dict[str, float] = {f.name: f.default for f in fields(SinkMetrics)}  # type: ignore[misc]
        self._lock = threading.Lock()

    def add(self, **counts: float) -> None:
        """Count something, by the names of `SinkMetrics`; a `_most` keeps the largest."""
        with self._lock:
            for name, count in counts.items():
                if name.endswith("_most"):
                    self._values[name] = max(self._values[name], count)
                else:
                    self._values[name] += count

    def read(self, *, queued_rows: int, queued_bytes: int) -> SinkMetrics:
        """The counts so far."""
        with self._lock:
            counted = SinkMetrics(**self._values)  # type: ignore[arg-type]
        return replace(counted, queued_rows=queued_rows, queued_bytes=queued_bytes)
