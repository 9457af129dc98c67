"""Rate limits for requests: a token bucket for each caller.

Requests with access tokens that are not known to be valid, or with a token in their body, are also
counted by address, because whoever guesses tokens sends a new one each time.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

_CALLERS: Final = 10_000


class Rates:
    """A token bucket for each caller; those of the least recent callers are removed.

    Args:
        rate: Requests per second that are added to a bucket.
        burst: Requests that a full bucket holds.
        clock: Returns monotonic time in seconds.
    """

    def __init__(
        self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._buckets: OrderedDict[bytes, tuple[float, float]] = OrderedDict()

    def takes(self, caller: bytes) -> bool:
        """Take one request from a caller's bucket; return False if the bucket is empty."""
        key, now = _digest(caller), self._clock()
        left, since = self._buckets.pop(key, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._rate)
        has_one = left >= 1
        self._buckets[key] = (left - 1 if has_one else left, now)
        if len(self._buckets) > _CALLERS:
            self._buckets.popitem(last=False)
        return has_one


class Users:
    """Hashes of the tokens that were valid when they were last used; the oldest are removed."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, None] = OrderedDict()

    def knows(self, shown: bytes) -> bool:
        """Return whether a token was valid when it was last used."""
        return _digest(shown) in self._known

    def remember(self, shown: bytes, *, known: bool) -> None:
        """Remember whether a token that was just used is valid."""
        self._known.pop(_digest(shown), None)
        if known:
            self._known[_digest(shown)] = None
        if len(self._known) > _CALLERS:
            self._known.popitem(last=False)


def _digest(secret: bytes) -> bytes:
    """Return a short hash, so that no secret is kept, and long ones need no more memory."""
    return hashlib.blake2b(secret, digest_size=16).digest()
