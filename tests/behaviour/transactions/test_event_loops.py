"""Transactions and reads in an event loop, and tasks that are cancelled at every point."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import InvalidInput, TransactionClosed
from lakeward.model import steps
from lakeward.read.aio import AsyncRows
from tests.behaviour.lakes import append, ids, unchanged

STEPS = (
    "transaction.opened",
    "stage.file-created",
    "stage.file-written",
    "stage.done",
    "validate.done",
    "commit.acknowledged",
)


@pytest.fixture
def table(lake: lw.Lake) -> lw.Table:
    """A table of one row."""
    made = lake.create("t", {"id": "int64"})
    append(lake, "t", {"id": [1]})
    return made


def test_a_block_commits_at_its_end(lake: lw.Lake, table: lw.Table) -> None:
    async def main() -> None:
        async with lake.transaction(message="why") as tx:
            assert (await tx.append("t", {"id": [2, 3]})).inserted == 2
            assert (await tx.delete("t", where="id = 1")).deleted == 1
            assert (await tx.update("t", set={"id": "id * 10"}, where="id = 2")).updated == 1
            assert (await tx.merge("t", {"id": [3, 4]}, on="id")).inserted == 1
            assert (await tx.read("t")).num_rows == 3
            await tx.record("t", "app", 7)
            assert (tx.is_open, tx.result) == (True, None)
        assert tx.result is not None
        assert tx.result.versions == {"t": 2}
        assert (await tx.outcome()).committed
        with pytest.raises(TransactionClosed):
            await tx.append("t", {"id": [9]})

    asyncio.run(main())
    assert ids(lake, "t") == [3, 4, 20]
    assert table.app_version("app") == 7


def test_an_error_rolls_back(lake: lw.Lake, table: lw.Table) -> None:
    async def main() -> None:
        async with lake.transaction() as tx:
            await tx.append("t", {"id": [2]})
            raise KeyError

    with unchanged(lake), pytest.raises(KeyError):
        asyncio.run(main())


def test_the_loop_goes_on_while_a_transaction_works(lake: lw.Lake, table: lw.Table) -> None:
    async def main() -> None:
        release, ticks = threading.Event(), 0

        def slow() -> Generator[pa.Table]:
            assert release.wait(30)
            yield pa.table({"id": [2]})

        async with lake.transaction() as tx:
            task = asyncio.create_task(tx.append("t", slow()))
            for _ in range(3):
                await asyncio.sleep(0.01)
                ticks += 1
            assert not task.done()
            release.set()
            await task
            await asyncio.gather(*(tx.append("t", {"id": [n]}) for n in (3, 4)))
        assert ticks == 3

    asyncio.run(main())
    assert ids(lake, "t") == [1, 2, 3, 4]


@pytest.mark.parametrize("step", STEPS)
def test_a_task_cancelled_at_a_step_leaves_nothing_or_a_whole_commit(
    lake: lw.Lake, table: lw.Table, step: str
) -> None:
    async def main() -> lw.Transaction:
        tx, loop = lake.transaction(), asyncio.get_running_loop()

        async def work() -> None:
            async with tx as block:
                await block.append("t", {"id": [2]})
                await block.append("t", {"id": [3]})

        task = asyncio.create_task(work())
        cancel = partial(loop.call_soon_threadsafe, task.cancel)
        with _at(step, cancel) as reached, pytest.raises(asyncio.CancelledError):
            await task
        assert reached.is_set()
        assert not await asyncio.to_thread(_workers)
        return tx

    before = _untouched(lake)
    tx = asyncio.run(main())

    committed = tx.result is not None
    assert not tx.is_open
    assert ids(lake, "t") == ([1, 2, 3] if committed else [1])
    assert tx.outcome().committed == committed
    assert committed == (step in ("stage.done", "validate.done", "commit.acknowledged"))
    assert lake.transactions(state="open") == []
    if not committed:
        assert _untouched(lake) == before
    append(lake, "t", {"id": [9]})


def test_a_commit_that_has_not_begun_is_not_made(lake: lw.Lake, table: lw.Table) -> None:
    async def main() -> None:
        async with lake.transaction() as tx:
            await tx.append("t", {"id": [2]})
            task = asyncio.current_task()
            assert task is not None
            task.cancel()

    with unchanged(lake), pytest.raises(asyncio.CancelledError):
        asyncio.run(main())


def test_a_timeout_in_the_block_ends_the_transaction(lake: lw.Lake, table: lw.Table) -> None:
    async def main() -> None:
        async with lake.transaction() as tx:
            with suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    await tx.append("t", _slow(0.2))
            with pytest.raises(TransactionClosed):
                await tx.append("t", {"id": [3]})

    with unchanged(lake), pytest.raises(TransactionClosed):
        asyncio.run(main())


def test_a_cancelled_read_leaves_the_transaction_open(lake: lw.Lake, table: lw.Table) -> None:
    async def main() -> None:
        async with lake.transaction() as tx:
            await tx.append("t", {"id": [2]})
            reading = asyncio.create_task(tx.read("t"))
            await asyncio.sleep(0)
            reading.cancel()
            with suppress(asyncio.CancelledError):
                await reading
            await tx.append("t", {"id": [3]})

    asyncio.run(main())
    assert ids(lake, "t") == [1, 2, 3]


def test_a_task_that_waits_for_a_lock_is_cancelled_at_once(lake: lw.Lake, table: lw.Table) -> None:
    async def main() -> float:
        async with lake.transaction() as tx:
            task = asyncio.create_task(tx.lock("t", timeout=60))
            while not any(lock.waiters for lock in lake.locks()):
                await asyncio.sleep(0.01)
            began = time.monotonic()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await tx.rollback()
            return time.monotonic() - began

    with lake.transaction() as other:
        other.lock("t")
        assert asyncio.run(main()) < 10
        assert [len(lock.waiters) for lock in lake.locks()] == [0]
    assert lake.locks() == []


def test_tasks_that_are_cancelled_twice_still_wait(lake: lw.Lake, table: lw.Table) -> None:
    async def main() -> None:
        began, release = threading.Event(), threading.Event()

        def slow() -> Generator[pa.Table]:
            began.set()
            assert release.wait(30)
            yield pa.table({"id": [2]})

        async def work() -> None:
            async with lake.transaction() as tx:
                await tx.append("t", slow())

        task = asyncio.create_task(work())
        while not began.is_set():
            await asyncio.sleep(0.01)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0.01)
            assert not task.done()
        release.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not await asyncio.to_thread(_workers)

    with unchanged(lake):
        asyncio.run(main())


def test_reads_are_awaited(lake: lw.Lake, table: lw.Table) -> None:
    async def main() -> None:
        for rows in (table.aio(), table.at().aio(), lake.snapshot().table("t").aio()):
            assert (await rows.to_arrow(where="id = 1")).to_pylist() == [{"id": 1}]
            assert (await rows.to_pandas())["id"].tolist() == [1]
            assert (await rows.to_polars(columns=["id"])).to_dicts() == [{"id": 1}]
            assert ((await rows.head(0)).num_rows, await rows.count("id > 1")) == (0, 0)
            assert [b.num_rows async for b in rows.batches()] == [1]
        reading = asyncio.create_task(table.aio().to_arrow())
        await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        async for _ in table.aio().batches():
            break
        assert not await asyncio.to_thread(_workers)

    asyncio.run(main())


def test_a_read_that_is_cancelled_while_it_runs_ends_after_its_batch() -> None:
    began, release = threading.Event(), threading.Event()
    asked: list[int] = []

    class Slow:
        def to_reader(self, **_: Any) -> pa.RecordBatchReader:
            def batches() -> Iterator[pa.RecordBatch]:
                for number in range(100):
                    asked.append(number)
                    began.set()
                    assert release.wait(30)
                    yield pa.record_batch({"id": [number]})

            return pa.RecordBatchReader.from_batches(pa.schema({"id": pa.int64()}), batches())

    async def main() -> None:
        reading = asyncio.create_task(AsyncRows(Slow()).to_arrow())  # type: ignore[arg-type]
        while not began.is_set():
            await asyncio.sleep(0.01)
        reading.cancel()
        await asyncio.sleep(0.05)
        assert not reading.done()
        release.set()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert not await asyncio.to_thread(_workers)

    asyncio.run(main())
    assert asked == [0]


def test_a_function_is_run_again_after_a_conflict(lake: lw.Lake, table: lw.Table) -> None:
    seen: list[int] = []

    async def work(tx: Any) -> int:
        seen.append((await tx.read("t")).num_rows)
        await tx.delete("t", where="id = 1")
        if len(seen) == 1:
            await asyncio.to_thread(append, lake, "t", {"id": [1]})
        return seen[-1]

    result = asyncio.run(_run(lake, work))

    assert (result.value, result.attempts, seen) == (2, 2, [1, 2])
    assert ids(lake, "t") == []


def test_a_function_that_is_no_coroutine_is_refused(lake: lw.Lake) -> None:
    with pytest.raises(InvalidInput, match="asynchronous"):
        asyncio.run(_run(lake, lambda tx: 1))


def test_a_cancelled_function_is_rolled_back(lake: lw.Lake, table: lw.Table) -> None:
    ended: list[str] = []

    async def work(tx: Any) -> None:
        try:
            await tx.append("t", {"id": [2]})
            await asyncio.sleep(60)
        finally:
            ended.append("work")

    async def main() -> None:
        task = asyncio.create_task(lake.aio().run(work))
        while not lake.transactions(state="open"):
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        ended.append("task")

    with unchanged(lake):
        asyncio.run(main())
    assert ended == ["work", "task"]


async def _run(lake: lw.Lake, fn: Any) -> lw.CommitResult:
    return await lake.aio().run(fn)


def _slow(seconds: float) -> Generator[pa.Table]:
    time.sleep(seconds)
    yield pa.table({"id": [2]})


def _untouched(lake: lw.Lake) -> object:
    from tests.behaviour.lakes import picture

    return picture(lake)


def _workers() -> list[str]:
    """Threads of the event loop's calls that go on; they end soon after their last call."""
    until = time.monotonic() + 10
    while True:
        found = [t.name for t in threading.enumerate() if t.name.startswith("lakeward-aio")]
        if not found or time.monotonic() > until:
            return found
        time.sleep(0.01)


@contextmanager
def _at(step: str, do: Callable[[], object]) -> Generator[threading.Event]:
    """Do something when a step is reached for the first time, and give it time to take effect."""
    reached = threading.Event()

    def observe(name: str) -> None:
        if name == step and not reached.is_set():
            reached.set()
            do()
            time.sleep(0.05)

    steps.observe(observe)
    try:
        yield reached
    finally:
        steps.observe(None)
