"""Commits that run behind their caller, one after the other, a few at most."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from lakeward.stream.result import EpochResult

_MOST: Final = 8


class Underway:
    """The epochs of one sink that are on their way."""

    def __init__(self) -> None:
        self._room = threading.BoundedSemaphore(_MOST)
        self._thread: ThreadPoolExecutor | None = None
        self._last: Future[EpochResult] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether one is."""
        return self._last is not None and not self._last.done()

    def add(self, commit: Callable[[], EpochResult]) -> Future[EpochResult]:
        """Run a commit after those that were added before; waits while there are too many."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "lakeward-epochs")
        self._room.acquire()
        self._last = self._thread.submit(self._run, commit)
        return self._last

    def wait(self) -> None:
        """Return when none is under way."""
        if self._last is not None:
            self._last.exception()

    def close(self) -> None:
        """End the thread, when it has done what it was given."""
        if self._thread is not None:
            self._thread.shutdown()

    def _run(self, commit: Callable[[], EpochResult]) -> EpochResult:
        try:
            return commit()
        finally:
            self._room.release()
