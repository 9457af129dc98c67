"""Pages take turns; what changes the lake does not wait for them."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from fastapi import Depends, FastAPI

from lakeward.web.turns import Turns, take_turn


class _Pages:
    """An application whose pages end when they are told to."""

    def __init__(self, most: int) -> None:
        self.begun: list[int] = []
        self.end = asyncio.Event()
        self.app = FastAPI(dependencies=[Depends(take_turn, scope="function")])
        self.app.state.turns = Turns(most)

        @self.app.api_route("/{number}", methods=["GET", "POST"])
        async def page(number: int) -> int:
            self.begun.append(number)
            await self.end.wait()
            if number == 1:
                message = "this page fails"
                raise RuntimeError(message)
            return number

    async def answers(self) -> list[int]:
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            pages = []
            for number in range(5):
                pages.append(asyncio.create_task(client.get(f"/{number}")))
                await asyncio.sleep(0.02)
            change = asyncio.create_task(client.post("/9"))
            await asyncio.sleep(0.05)
            assert self.begun == [0, 1, 9], "two pages, and the change at once"
            self.end.set()
            found = await asyncio.gather(*pages, change)
        return [answer.status_code for answer in found]


def test_pages_are_computed_in_order_a_few_at_a_time() -> None:
    async def run() -> None:
        pages = _Pages(2)
        assert await pages.answers() == [200, 500, 200, 200, 200, 200]
        assert pages.begun == [0, 1, 9, 2, 3, 4]

    asyncio.run(run())


def test_a_page_that_is_not_wanted_any_more_gives_its_turn_back() -> None:
    async def run() -> None:
        turns = Turns(1)
        async with turns:
            waiting = asyncio.create_task(turns.__aenter__())
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        await asyncio.wait_for(turns.__aenter__(), 1)

    asyncio.run(run())
