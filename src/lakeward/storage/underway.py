"""Files on their way: written, and not yet safe."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence


class Underway(ABC):
    """A file that was written, and is safe when `wait` returns."""

    __slots__ = ()
    path: str
    size = 0
    """Bytes that a disk of this machine may still have to write."""

    def take(self) -> Sequence[int]:
        """Open files that somebody else syncs before `wait`; none if it needs nobody else."""
        return ()

    def begin(self) -> None:  # noqa: B027  most are on their way from the start
        """See that it is on its way."""

    @abstractmethod
    def wait(self) -> None:
        """Return when it is safe.

        Raises:
            LakewardError: It could not be made so.
        """

    def discard(self) -> None:  # noqa: B027  most hold nothing
        """Let go of it, safe or not; nobody needs it."""


class Pending(Underway):
    """A call that may be under way in another thread, or is made by whoever waits for it."""

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


def _nothing() -> None:
    pass
