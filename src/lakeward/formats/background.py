"""Work that a commit leaves behind and nobody waits for: checkpoints, notes of how far we got.

One thread a lake, which is there while there is something to do. Whoever closes the lake, and the
end of the process, wait for it; a process that dies before leaves nothing that is missed. When more
is left behind than the thread can do, whoever leaves it does it himself.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
_WAITING: Final = 1
"""How many jobs may wait for the one that is being done."""
_PAUSE_SECONDS: Final = 0.0005


class BackgroundWorker:
    """Does jobs one after the other, behind the back of those who left them."""

    def __init__(self) -> None:
        self._begin()

    def do(self, job: Callable[[], None]) -> None:
        """Have a job done; what it raises is reported and no more."""
        if self._pid != os.getpid():
            # A forked child has none of its parent's threads and owes none of its work.
            self._begin()
        if not self._take(job):
            _attempt(job)

    def wait(self) -> None:
        """Return when everything left so far is done."""
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
    """The same items; in the thread that is behind, with pauses in which other threads get on.

    Python lets a thread that computes go on for five milliseconds while others want to; a commit
    asks dozens of times.
    """
    if not isinstance(threading.current_thread(), _Thread):
        yield from source
        return
    for item in source:
        yield item
        time.sleep(_PAUSE_SECONDS)


class _Thread(threading.Thread):
    """Known by its kind."""


def _attempt(job: Callable[[], None]) -> None:
    try:
        job()
    except Exception as error:  # noqa: BLE001  nobody waits for it who could be told
        _LOG.warning("What a commit left to do is not done, and the next one will: %s", error)
