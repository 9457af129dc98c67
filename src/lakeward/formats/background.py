"""Background work after commits: checkpoints, and records of how far publication got.

Each lake has one thread, which ends when it has no more jobs. Closing the lake and the end of the
process wait for the thread; if the process dies, later commits do the lost work. While one job runs
and another waits, the caller runs a new job itself.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, TypeVar

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
_WAITING: Final = 1
"""How many jobs may wait while another runs."""
_PAUSE_SECONDS: Final = 0.0005


class BackgroundWorker:
    """Runs jobs one after the other in a thread.

    Attributes:
        compactor: Compacts the small files of a table, given its name.
    """

    def __init__(self) -> None:
        self.compactor: Callable[[str], None] | None = None
        self._begin()

    def do(self, job: Callable[[], None]) -> None:
        """Run a job in the thread, or here if another one is waiting; an error is only logged."""
        if self._pid != os.getpid():
            # A forked child has none of its parent's threads and none of its jobs.
            self._begin()
        if not self._take(job):
            _attempt(job)

    def offer(self, job: Callable[[], None]) -> bool:
        """Run a job in the thread, unless another one is waiting; return whether it is accepted."""
        if self._pid != os.getpid():
            self._begin()
        return self._take(job)

    def compact(self, name: str) -> None:
        """Compact a table's small files in the thread, unless another job is waiting.

        Does nothing if `compactor` is None.
        """
        if self.compactor is not None:
            self.offer(partial(self.compactor, name))

    def wait(self) -> None:
        """Wait until all jobs are done."""
        thread = self._thread
        if self._pid == os.getpid() and thread is not None:
            thread.join()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._jobs: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def _take(self, job: Callable[[], None]) -> bool:
        with self._lock:
            if len(self._jobs) > _WAITING:
                return False
            self._jobs.append(job)
            if len(self._jobs) == 1:
                # Not a daemon: the process does not end in the middle of a file.
                self._thread = _Thread(target=self._work, name="lakeward-behind")
                try:
                    self._thread.start()
                except RuntimeError:
                    # Threads have run out, or the process is about to end.
                    self._jobs.clear()
                    return False
            return True

    def _work(self) -> None:
        while True:
            _attempt(self._jobs[0])
            with self._lock:
                self._jobs.popleft()
                if not self._jobs:
                    return


def with_pauses(source: Iterable[T]) -> Iterator[T]:
    """Yield the same items; in the background thread, sleep after each so that commits proceed.

    Without the sleep, Python lets a computing thread run for five milliseconds while others wait.
    """
    if not isinstance(threading.current_thread(), _Thread):
        yield from source
        return
    for item in source:
        yield item
        time.sleep(_PAUSE_SECONDS)


class _Thread(threading.Thread):
    """The background thread; `with_pauses` recognizes it by this class."""


def _attempt(job: Callable[[], None]) -> None:
    try:
        job()
    except Exception as error:  # noqa: BLE001  nobody waits for it who could be told
        _LOG.warning("Post-commit work failed; a later commit does it again: %s", error)
