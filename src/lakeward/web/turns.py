"""Pages are computed a few at a time, in the order of their requests.

Python runs one thread at a time. If all pages were computed at once, one that takes longer would
take as many times longer as there are others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

from fastapi import Request

AT_ONCE: Final = 3
_SAFE: Final = ("GET", "HEAD")


class Turns:
    """Lets some of the requests begin; others wait until one of them has ended."""

    def __init__(self, most: int = AT_ONCE) -> None:
        self._free = asyncio.Semaphore(most)

    async def __aenter__(self) -> None:
        await self._free.acquire()

    async def __aexit__(self, *_: object) -> None:
        self._free.release()


async def take_turn(request: Request) -> AsyncGenerator[None]:
    """Wait for a turn to compute a page, and give it back before the page is sent.

    Requests that change something wait for locks of tables, so they take no turn.
    """
    if request.method not in _SAFE:
        yield
        return
    async with request.app.state.turns:
        yield
