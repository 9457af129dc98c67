"""Requests to an object store, repeated with growing pauses while it is overloaded or away.

The library repeats what the store refused for the moment by itself. What it does not repeat are
requests that may have been heard, such as a conditional put that was not answered in time; here
they are, because whoever asks can tell afterwards what became of an earlier try.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from tenacity import (
    Retrying,
    retry_if_exception,
    stop_after_attempt,
    stop_after_delay,
    stop_all,
    wait_random_exponential,
)

from lakeward.storage.errors import is_taken, may_pass, told
from lakeward.storage.options import StorageOptions

T = TypeVar("T")

RETRY_SECONDS: Final = 60.0
"""How long a request is repeated unless `retry_timeout` says otherwise."""
SHARE: Final = 4
"""The library's own repetitions end after this part of it, so that there are several rounds."""
_LEAST: Final = 3


class Taken(Exception):
    """The name of a conditional put is taken."""


class Asking:
    """Makes requests that may be repeated."""

    def __init__(self, root: str, options: StorageOptions) -> None:
        self._root = root
        self._options = options
        self._seconds = options.span("retry_timeout", RETRY_SECONDS).total_seconds()

    def __call__(self, path: str, call: Callable[[], T]) -> T:
        """Make a request, again for as long as its failures may pass.

        Args:
            path: The file that it is about.
            call: Makes it.

        Raises:
            Taken: A conditional put found its name taken.
            StorageError: The store refuses it, or failed to the end; `denied` says whether
                credentials are the reason.
        """
        attempts = Retrying(
            retry=retry_if_exception(may_pass),
            # A machine that was asleep meanwhile has waited and not asked.
            stop=stop_all(stop_after_delay(self._seconds), stop_after_attempt(_LEAST)),
            wait=wait_random_exponential(multiplier=0.05, max=5.0),
            reraise=True,
        )
        try:
            return attempts(call)
        except Exception as error:  # noqa: BLE001  the library's errors have no root of their own
            if is_taken(error):
                raise Taken(path) from None
            # Its cause is left out: the library's errors quote what was sent.
            raise told(error, path, self._root, self._options) from None
