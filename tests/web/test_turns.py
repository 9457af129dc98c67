"""Pages take turns, and uploads give way to them, but not for long."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

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
        turns = Turns(pages=1, patience=60)
        async with turns.page(), turns.upload():
            waiting = asyncio.create_task(_note(turns.page(), [], 0))
            await asyncio.sleep(0)
            begun: list[int] = []
            upload = asyncio.create_task(_note(turns.upload(), begun, 1))
            await asyncio.sleep(0.02)
            assert begun == [], "an upload is under way, and a page waits"
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await asyncio.wait_for(upload, 1)
        async with asyncio.timeout(1), turns.page():
            pass

    asyncio.run(run())


def test_uploads_are_handled_at_once_while_no_page_waits() -> None:
    async def run() -> None:
        turns = Turns(pages=1, patience=60)
        async with turns.page(), turns.upload(), asyncio.timeout(1), turns.upload():
            pass

    asyncio.run(run())


def test_while_pages_wait_one_upload_is_handled_at_a_time() -> None:
    async def run() -> None:
        turns = Turns(pages=1, patience=60)
        begun: list[int] = []
        async with turns.page():
            pages = [asyncio.create_task(_note(turns.page(), begun, n)) for n in (1, 2)]
            await asyncio.sleep(0)
            async with turns.upload():
                uploads = [asyncio.create_task(_note(turns.upload(), begun, n)) for n in (3, 4)]
                await asyncio.sleep(0.02)
                assert begun == []
            await asyncio.gather(*uploads)
            assert begun == [3, 4], "one after the other"
        await asyncio.gather(*pages)
        assert begun == [3, 4, 1, 2]

    asyncio.run(run())


def test_an_upload_that_waits_for_a_lock_does_not_hold_up_the_one_that_releases_it() -> None:
    async def run() -> None:
        turns, released = Turns(pages=1, patience=0.05), asyncio.Event()

        async def release() -> None:
            async with turns.upload():
                released.set()

        async with turns.page():
            page = asyncio.create_task(_note(turns.page(), [], 0))
            await asyncio.sleep(0)
            async with turns.upload(), asyncio.timeout(5):
                later = asyncio.create_task(release())
                await released.wait()
            await later
        await page

    asyncio.run(run())


async def _note(turn: AbstractAsyncContextManager[None], begun: list[int], number: int) -> None:
    """Take a turn, and note that it was taken."""
    async with turn:
        begun.append(number)
