"""Requests to an object store, retried with growing pauses while it is overloaded or unreachable.

obstore itself retries refused requests, but none that may have succeeded, such as a conditional put
without a response. These are retried here, because callers can detect that an earlier try
succeeded.
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

from lakeward.storage.object_store.errors import is_taken, is_temporary, translate
from lakeward.storage.object_store.options import StorageOptions

T = TypeVar("T")

RETRY_SECONDS: Final = 60.0
"""How long a request is retried unless `retry_timeout` says otherwise."""
SHARE: Final = 4
"""obstore's own retries get the retry time divided by this, so that there are several rounds."""
_LEAST: Final = 3


class NameTaken(Exception):
    """A conditional put was refused because a file of that name exists."""


class Requests:
    """Makes requests to one object store, with retries."""

    def __init__(self, root: str, options: StorageOptions) -> None:
        self._root = root
        self._options = options
        self._seconds = options.span("retry_timeout", RETRY_SECONDS).total_seconds()

    def __call__(self, path: str, call: Callable[[], T]) -> T:
        """Make a request about a file, retried while its errors are temporary.

        Raises `NameTaken` if the name of a conditional put is taken, else a `StorageError`, whose
        fact `denied` says whether missing permissions are the reason.
        """
        attempts = Retrying(
            retry=retry_if_exception(is_temporary),
            # A machine that was suspended has waited without trying.
            stop=stop_all(stop_after_delay(self._seconds), stop_after_attempt(_LEAST)),
            wait=wait_random_exponential(multiplier=0.05, max=5.0),
            reraise=True,
        )
        try:
            return attempts(call)
        except Exception as error:  # noqa: BLE001  obstore's errors have no common class
            if is_taken(error):
                raise NameTaken(path) from None
            # No cause: obstore's errors quote the request.
            raise translate(error, path, self._root, self._options) from None
