"""Files on their way to an object store, a few at once, while their writer goes on.

Whoever asks for a file that is still on its way waits for it first, so that a writer can read what
it has just written; and what is deleted does not arrive afterwards.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from lakeward.errors import LakewardError
from lakeward.storage.underway import Pending

_AT_ONCE: Final = 4
"""More would only wait in memory."""


class Uploads:
    """Files under way, by name."""

    def __init__(self) -> None:
        self._under_way: dict[str, Pending] = {}
        self._starting = threading.Lock()
        self._start()

    def begin(self, name: str, call: Callable[[], None]) -> Pending:
        """Begin an upload, as soon as there is room for it."""
        if self._pid != os.getpid():
            with self._starting:
                if self._pid != os.getpid():
                    # A forked child has the parent's threads in name only.
                    self._start()
        room, under_way = self._room, self._under_way
        room.acquire()

        def upload() -> None:
            try:
                call()
            finally:
                under_way.pop(name, None)
                room.release()

        pending = under_way[name] = Pending(upload)
        self._pool.submit(pending.run)
        return pending

    def wait(self, name: str) -> None:
        """Return when a file is no longer on its way; whether it arrived is seen by asking."""
        pending = self._under_way.get(name)
        if pending is not None:
            with suppress(LakewardError):
                pending.wait()

    def _start(self) -> None:
        self._under_way = {}
        self._room = threading.Semaphore(_AT_ONCE)
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="lakeward-upload")
        self._pid = os.getpid()
