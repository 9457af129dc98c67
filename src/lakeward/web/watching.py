"""Server-sent events that tell open pages when the lake has changed.

The newest commit and the open transactions are read once a second for all pages of a process. An
event has no details of the change: the page loads its content again, with the access of its user.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Final

from starlette.concurrency import run_in_threadpool

from lakeward.errors import LakewardError

if TYPE_CHECKING:
    from lakeward.lake.lake import Lake

_EVERY_SECONDS: Final = 1.0
_MOST_OPEN: Final = 1000
STREAM_SECONDS: Final = 300.0
"""After this time a stream ends, and the browser opens another one."""


class Watch:
    """Reads the state of the lake, at most once a second, and streams events when it changes."""

    def __init__(self, lake: Lake, stopping: Callable[[], bool]) -> None:
        self._lake = lake
        self._stopping = stopping
        self._looked = 0.0
        self._mark = ""
        self._lock = asyncio.Lock()

    async def events(self) -> AsyncIterator[bytes]:
        """Yield an event `changed` after each change, and a comment after 15 seconds without."""
        until, said, quiet = time.monotonic() + STREAM_SECONDS, await self._newest(), 0.0
        yield b"retry: 2000\n\n"
        while time.monotonic() < until and not self._stopping():
            await asyncio.sleep(_EVERY_SECONDS)
            newest = await self._newest()
            quiet += _EVERY_SECONDS
            if newest != said:
                said, quiet = newest, 0.0
                yield b"event: changed\ndata: {}\n\n"
            elif quiet >= 15:
                # By this a connection that is gone is noticed.
                quiet = 0.0
                yield b": still here\n\n"

    async def _newest(self) -> str:
        async with self._lock:
            if time.monotonic() - self._looked >= _EVERY_SECONDS * 0.9:
                self._mark = await run_in_threadpool(self._look)
                self._looked = time.monotonic()
            return self._mark

    def _look(self) -> str:
        try:
            position = self._lake.last_position()
            # One that is older than others may end after them.
            found = [
                *self._lake.transactions(limit=1),
                *self._lake.transactions(state="open", limit=_MOST_OPEN),
            ]
        except LakewardError:
            return self._mark
        return " ".join([str(position), *(f"{one.transaction_id} {one.state}" for one in found)])
