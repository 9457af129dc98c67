"""One thread that waits for the disk while its caller goes on.

A call that is begun is over, or its error is raised, when `wait` returns. Nobody waits for the
thread itself: a call that it has not begun yet is made by whoever waits for it, so work that is
handed over is never later than work that is not.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue


class Pending:
    """A call that may be under way."""

    __slots__ = ("_call", "_claim", "_error", "_over")

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._error: BaseException | None = None
        self._claim = threading.Lock()
        self._over = threading.Lock()
        self._over.acquire()

    def wait(self) -> None:
        """Return when the call is over, as often as asked.

        Raises:
            BaseException: What the call raised.
        """
        self.run()
        with self._over:
            pass
        if self._error is not None:
            raise self._error

    def run(self) -> None:
        """Make the call, unless somebody else makes it or has made it."""
        if not self._claim.acquire(blocking=False):
            return
        call = self._call
        # What the call holds, such as a file's bytes, is not kept until somebody waits for it.
        self._call = _nothing
        try:
            call()
        except BaseException as error:  # noqa: BLE001  it is raised where the call is waited for
            self._error = error
        finally:
            self._over.release()


class Helper:
    """Makes calls in a thread of its own, which is started by the first one."""

    def __init__(self) -> None:
        self._pid = 0
        self._waiting: SimpleQueue[Pending] = SimpleQueue()
        self._starting = threading.Lock()

    def begin(self, call: Callable[[], None]) -> Pending:
        """Begin a call."""
        if self._pid != os.getpid():
            self._start()
        pending = Pending(call)
        self._waiting.put(pending)
        return pending

    def _start(self) -> None:
        with self._starting:
            if self._pid == os.getpid():
                return
            # A forked child has the parent's queue and not its thread.
            self._waiting = SimpleQueue()
            threading.Thread(
                target=_work, args=(self._waiting,), name="lakeward-disk", daemon=True
            ).start()
            self._pid = os.getpid()


def _nothing() -> None:
    pass


def _work(waiting: SimpleQueue[Pending]) -> None:
    while True:
        waiting.get().run()


HELPER = Helper()
"""The one of this process."""
