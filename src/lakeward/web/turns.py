"""Decides which requests begin and which wait, because Python runs one thread at a time.

If all requests were handled at once, one that takes longer would take as many times longer as
there are others, and writers that append without a pause would hold up all pages.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final

from fastapi import Request

PAGES_AT_ONCE: Final = 3
PATIENCE: Final = 1.0
_SAFE: Final = ("GET", "HEAD")


class Turns:
    """Computes pages a few at a time, in their order, and lets uploads give way to them.

    While pages wait, one upload is handled at a time. An upload waits at most some seconds and
    begins then, because the one before it may wait for a lock that only a later request releases.

    Args:
        pages: The number of pages that are computed at once.
        patience: The seconds that an upload waits at most.
    """

    def __init__(self, pages: int = PAGES_AT_ONCE, patience: float = PATIENCE) -> None:
        self._free, self._patience = asyncio.Semaphore(pages), patience
        self._waiting = self._uploads = 0
        self._may_begin = asyncio.Event()

    @asynccontextmanager
    async def page(self) -> AsyncGenerator[None]:
        """Wait until this page may be computed; the next one may when the block ends."""
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1
            self._renew()
        try:
            yield
        finally:
            self._free.release()

    @asynccontextmanager
    async def upload(self) -> AsyncGenerator[None]:
        """Wait until an upload may be handled, which the block does."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience):
                while not self._renew():
                    await self._may_begin.wait()
        self._uploads += 1
        try:
            yield
        finally:
            self._uploads -= 1
            self._renew()

    def _renew(self) -> bool:
        """Return whether an upload may begin, and wake those that wait for that."""
        may_begin = not (self._waiting and self._uploads)
        if may_begin:
            self._may_begin.set()
        else:
            self._may_begin.clear()
        return may_begin


async def take_turn(request: Request) -> AsyncGenerator[None]:
    """Wait for a turn to compute a page, and give it back before the page is sent.

    Requests that change something wait for locks of tables, so they take no turn.
    """
    if request.method not in _SAFE:
        yield
        return
    async with request.app.state.turns.page():
        yield
