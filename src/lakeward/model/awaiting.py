"""Runs calls in threads and awaits them; a cancelled task waits until its call has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")


def worker() -> Executor:
    """Return an executor with one thread."""
    return ThreadPoolExecutor(1, thread_name_prefix="lakeward-aio")


async def awaited(
    call: Callable[[], T],
    *,
    pool: Executor | None = None,
    stop: Callable[[], object] | None = None,
) -> T:
    """Run a call in a thread and return its result.

    When the task is cancelled, a call that has not begun is dropped, and one that runs is waited
    for, so that no call outlives its task.

    Args:
        call: What to run.
        pool: The threads that run it; a new thread if None.
        stop: Called when the task is cancelled, so that the call can end early.
    """
    # A task that was cancelled before begins nothing any more.
    await asyncio.sleep(0)
    threads = worker() if pool is None else pool
    job = threads.submit(copy_context().run, call)
    future = asyncio.wrap_future(job)
    try:
        await asyncio.wait([future])
    except asyncio.CancelledError:
        job.cancel()
        if stop is not None:
            stop()
        await _ended(future)
        raise
    finally:
        if pool is None:
            threads.shutdown(wait=False)
    return future.result()


async def uninterrupted(call: Callable[[], T], *, pool: Executor | None = None) -> T:
    """Run a call in a thread to its end and return its result, even if the task is cancelled."""
    threads = worker() if pool is None else pool
    future = asyncio.wrap_future(threads.submit(copy_context().run, call))
    await _ended(future)
    if pool is None:
        threads.shutdown(wait=False)
    return future.result()


async def _ended(future: asyncio.Future[T]) -> None:
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError:
            continue
    if not future.cancelled():
        # Looked at, so that asyncio does not report it as lost.
        future.exception()
