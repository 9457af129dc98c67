"""Runs asynchronous functions in transactions of a lake, and again after a conflict."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from lakeward.errors import InvalidInput
from lakeward.lake.transactions import Transactions
from lakeward.model.awaiting import awaited
from lakeward.model.shown import Shown
from lakeward.write.transaction.aio import AsyncTransaction
from lakeward.write.transaction.lifecycle import CommitResult
from lakeward.write.transaction.transaction import Transaction


class AsyncLake(Shown):
    """The asynchronous methods of a lake, in addition to `async with lake.transaction()`."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def run(
        self, fn: Callable[[AsyncTransaction], Awaitable[Any]], **options: Any
    ) -> CommitResult:
        """Run `await fn(transaction)` and commit; on a conflict, run it again.

        If the task is cancelled, `fn` is cancelled too, and the task ends when its transaction is
        rolled back, or when a commit that has begun is done.

        Args:
            fn: An asynchronous function, called with a fresh transaction each time; it should have
                no other effects. The result's `value` is what it returned.
            **options: As in `Lake.run`.

        Raises:
            Conflict: Every attempt conflicted, or `on_conflict` forbids to run it again.
        """
        attempts = _Attempts(fn, asyncio.get_running_loop())
        given = {"retry": None, "on_conflict": None, "isolation": "snapshot", "message": None}
        call = partial(self._transactions.run, attempts.run, **{**given, **options})
        return await awaited(call, stop=attempts.cancel)


class _Attempts:
    """Runs an asynchronous function in the event loop, on behalf of a thread that waits for it.

    The thread calls `run`; the other methods are called in the thread of the event loop.
    """

    def __init__(
        self, fn: Callable[[AsyncTransaction], Awaitable[Any]], loop: asyncio.AbstractEventLoop
    ) -> None:
        self._fn: Callable[[AsyncTransaction], Any] = fn
        self._loop = loop
        self._task: asyncio.Task[Any] | None = None
        self._cancelled = False

    def run(self, tx: Transaction) -> Any:
        """Run the function once in the event loop; wait until it ends, and return its result."""
        done: Future[Any] = Future()
        self._loop.call_soon_threadsafe(self._start, tx, done)
        return done.result()

    def cancel(self) -> None:
        """Cancel the function if it is running, and let later calls of `run` raise."""
        self._cancelled = True
        if self._task is not None:
            self._task.cancel()

    def _start(self, tx: Transaction, done: Future[Any]) -> None:
        if self._cancelled:
            done.set_exception(asyncio.CancelledError())
            return
        self._task = self._loop.create_task(self._call(tx))
        self._task.add_done_callback(partial(_pass_on, done))

    async def _call(self, tx: Transaction) -> Any:
        view = AsyncTransaction(tx, tx._lifecycle)
        try:
            answer = self._fn(view)
            if not inspect.isawaitable(answer):
                what = "`fn` must be an asynchronous function of a transaction."
                raise InvalidInput(what, hint="Write async def, or use lake.run in a thread.")
            return await answer
        finally:
            view._release()


def _pass_on(done: Future[Any], task: asyncio.Task[Any]) -> None:
    """Pass the result or the error of a task to the thread that waits for it."""
    error = asyncio.CancelledError() if task.cancelled() else task.exception()
    if error is not None:
        done.set_exception(error)
    else:
        done.set_result(task.result())
