"""How many requests one caller may make: a bucket for each that fills at an even rate."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

_CALLERS: Final = 10_000


class Rates:
    """A bucket of requests for each caller; the callers that asked least recently are forgotten.

    Args:
        rate: Requests per second that fill a bucket.
        burst: Requests that a full bucket holds.
        clock: Seconds that only grow.
    """

    def __init__(
        self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._buckets: OrderedDict[bytes, tuple[float, float]] = OrderedDict()

    def takes(self, caller: bytes) -> bool:
        """Take one request out of a caller's bucket; False if it is empty."""
        # A hash, so that no secret is kept and a long one costs no memory.
        key, now = hashlib.blake2b(caller, digest_size=16).digest(), self._clock()
        left, since = self._buckets.pop(key, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._rate)
        has_one = left >= 1
        self._buckets[key] = (left - 1 if has_one else left, now)
        if len(self._buckets) > _CALLERS:
            self._buckets.popitem(last=False)
        return has_one
