"""Transactions in an event loop: the operations are awaited, and run in one thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from lakeward.model.awaiting import awaited, uninterrupted, worker
from lakeward.model.expressions.when import Actions
from lakeward.model.parameters import Params
from lakeward.model.shown import Shown
from lakeward.write.commit.outcome import Outcome
from lakeward.write.history.restore import TableChange
from lakeward.write.plan.change import RowChanges
from lakeward.write.transaction.lifecycle import CommitResult, Lifecycle

T = TypeVar("T")


class AsyncTransaction(Shown):
    """A `Transaction` whose operations are awaited: `async with lake.transaction() as tx`.

    Operations run one after the other in a thread of the transaction. Data that is computed as it
    is read, such as a generator, is computed in that thread. The block commits at its end, and
    rolls back if an error or a cancellation ends it.

    A task that is cancelled waits until the running operation has ended, and then the transaction
    is rolled back: no row, no file, no lock is left. Only a commit that has begun is not undone: it
    is completed before the task is cancelled, and `result` or `outcome()` has its result.

    Attributes:
        transaction: The transaction itself, for attributes such as `transaction_id` and `bases`.
    """

    def __init__(self, transaction: Any, lifecycle: Lifecycle) -> None:
        self.transaction = transaction
        self._lifecycle = lifecycle
        self._thread: Executor | None = worker()

    def __repr__(self) -> str:
        return f"Async{self.transaction!r}"

    @property
    def transaction_id(self) -> str:
        """The id of the transaction, as in `lake.outcome` and in the history."""
        return self._lifecycle.transaction_id

    @property
    def result(self) -> CommitResult | None:
        """The result of the commit; None before it, and after a rollback."""
        return self._lifecycle.result

    @property
    def is_open(self) -> bool:
        """Whether the transaction can still be changed."""
        return self._lifecycle.is_open

    async def append(self, name: str, data: Any, *, schema_mode: str | None = None) -> RowChanges:
        """Add rows; see `Transaction.append`."""
        done = partial(self.transaction.append, name, data, schema_mode=schema_mode)
        return await self._change(done)

    async def overwrite(
        self,
        name: str,
        data: Any,
        *,
        where: str | None = None,
        params: Params | None = None,
        schema_mode: str | None = None,
    ) -> RowChanges:
        """Replace rows; see `Transaction.overwrite`."""
        done = partial(
            self.transaction.overwrite,
            name,
            data,
            where=where,
            params=params,
            schema_mode=schema_mode,
        )
        return await self._change(done)

    async def delete(self, name: str, *, where: str, params: Params | None = None) -> RowChanges:
        """Delete rows; see `Transaction.delete`."""
        return await self._change(
            partial(self.transaction.delete, name, where=where, params=params)
        )

    async def update(
        self,
        name: str,
        *,
        set: Mapping[str, Any],  # noqa: A002  SQL's own word
        where: str | None = None,
        params: Params | None = None,
    ) -> RowChanges:
        """Set new values in rows; see `Transaction.update`."""
        return await self._change(
            partial(self.transaction.update, name, set=set, where=where, params=params)
        )

    async def merge(
        self,
        name: str,
        data: Any,
        *,
        on: str | Sequence[str],
        matched: Actions = "update",
        not_matched: Actions = "insert",
        not_matched_by_source: Actions = None,
    ) -> RowChanges:
        """Merge rows into a table; see `Transaction.merge`."""
        return await self._change(
            partial(
                self.transaction.merge,
                name,
                data,
                on=on,
                matched=matched,
                not_matched=not_matched,
                not_matched_by_source=not_matched_by_source,
            )
        )

    async def alter(self, name: str, change: Callable[[Any], object]) -> None:
        """Change a table's definition; see `Transaction.alter`.

        Args:
            name: The table.
            change: Called with the result of `Transaction.alter`:
                `lambda alter: alter.add_column("note", "string")`.
        """
        await self._change(lambda: change(self.transaction.alter(name)))

    async def restore(
        self,
        name: str,
        *,
        version: int | None = None,
        timestamp: datetime | str | None = None,
        tag: str | None = None,
        transaction: str | None = None,
    ) -> TableChange:
        """Restore a table to an older version; see `Transaction.restore`."""
        call = partial(self.transaction.restore, name, version=version, timestamp=timestamp)
        return await self._change(partial(call, tag=tag, transaction=transaction))

    async def drop(self, name: str) -> None:
        """Drop a table when the transaction commits; see `Transaction.drop`."""
        await self._change(partial(self.transaction.drop, name))

    async def add_files(self, name: str, paths: Sequence[str]) -> None:
        """Add Parquet files below the table's location; see `Transaction.add_files`."""
        await self._change(partial(self.transaction.add_files, name, paths))

    async def remove_files(self, name: str, paths: Sequence[str]) -> None:
        """Remove files from the table by their paths; see `Transaction.remove_files`."""
        await self._change(partial(self.transaction.remove_files, name, paths))

    async def record(self, name: str, app_id: str, version: int) -> None:
        """Record an application's progress; see `Transaction.record`."""
        await self._change(partial(self.transaction.record, name, app_id, version))

    async def read(
        self,
        name: str,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        params: Params | None = None,
    ) -> Any:
        """Return the rows as this transaction sees them; see `Transaction.read`."""
        call = partial(self.transaction.read, name, columns=columns, where=where, params=params)
        return await awaited(call, pool=self._thread)

    async def sql(
        self, text: str, /, args: Mapping[str, Any] | Sequence[Any] | None = None, **values: Any
    ) -> Any:
        """Run an SQL statement; see `Transaction.sql`."""
        return await self._change(partial(self.transaction.sql, text, args, **values))

    async def lock(self, name: str, *, mode: str = "write", timeout: float | None = None) -> None:
        """Prevent others from changing a table; see `Transaction.lock`."""
        await self._change(partial(self.transaction.lock, name, mode=mode, timeout=timeout))

    async def lock_all(self, locks: Mapping[str, str]) -> None:
        """Lock several tables; see `Transaction.lock_all`."""
        await self._change(partial(self.transaction.lock_all, locks))

    async def commit(self) -> CommitResult:
        """Commit all changes at once, and publish them; see `Transaction.commit`."""
        return await self._change(self.transaction.commit)

    async def rollback(self) -> None:
        """Undo all changes; see `Transaction.rollback`."""
        await self._change(self.transaction.rollback)

    async def outcome(self) -> Outcome:
        """Return the outcome of the transaction, according to the store."""
        return await awaited(self.transaction.outcome)

    async def _change(self, call: Callable[[], T]) -> T:
        """Run an operation; roll the transaction back if the task is cancelled."""
        try:
            return await awaited(call, pool=self._thread, stop=self._lifecycle.abandoned.set)
        except asyncio.CancelledError as error:
            await uninterrupted(partial(self._give_up, error), pool=self._thread)
            raise

    def _give_up(self, reason: BaseException) -> None:
        if self._lifecycle.is_open:
            self._lifecycle.rollback()
            self._lifecycle.failure = reason

    async def _end(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the block: commit, or roll back."""
        try:
            end = partial(self.transaction.__exit__, kind, error, trace)
            await awaited(end, pool=self._thread, stop=self._lifecycle.abandoned.set)
        except asyncio.CancelledError:
            # Does nothing if the transaction has ended.
            await uninterrupted(self.transaction.rollback, pool=self._thread)
            raise
        finally:
            self._release()

    def _release(self) -> None:
        """End the thread; later calls run in other threads."""
        if self._thread is not None:
            self._thread.shutdown(wait=False)
            self._thread = None
