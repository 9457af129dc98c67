"""Reads rows in an event loop, by awaited methods; cancelling a task stops its reading."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial
from threading import Event
from typing import Any, Protocol

import pyarrow as pa

from lakeward.engines.arrow import frames
from lakeward.model.awaiting import awaited, uninterrupted, worker
from lakeward.model.parameters import Params, where_text
from lakeward.model.shown import Shown


class Rows(Protocol):
    """The methods of a table or a snapshot that read its rows."""

    def to_reader(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        params: Params | None = None,
    ) -> pa.RecordBatchReader:
        """Return the rows as a stream of record batches."""

    def head(
        self,
        n: int = 5,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        params: Params | None = None,
    ) -> pa.Table:
        """Return the first rows."""

    def count(self, where: str | None = None, *, params: Params | None = None) -> int:
        """Return the number of rows."""


class AsyncRows(Shown):
    """Reads rows in a thread, by awaited methods: `await table.aio().to_arrow()`.

    Cancelling a task stops the reading after the current batch.

    Attributes:
        source: The table or snapshot itself.
    """

    def __init__(self, source: Rows) -> None:
        self.source = source

    async def to_arrow(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        params: Params | None = None,
    ) -> pa.Table:
        """Return the rows as an Arrow table; see `Table.to_arrow`."""
        stop = Event()
        return await awaited(
            partial(_collected, self.source, columns, where_text(where, params), stop),
            stop=stop.set,
        )

    async def to_pandas(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        params: Params | None = None,
    ) -> Any:
        """Return the rows as a pandas DataFrame; see `Table.to_pandas`."""
        rows = await self.to_arrow(columns=columns, where=where, params=params)
        return await awaited(partial(frames.to_pandas, rows))

    async def to_polars(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        params: Params | None = None,
    ) -> Any:
        """Return the rows as a Polars DataFrame; see `Table.to_polars`."""
        rows = await self.to_arrow(columns=columns, where=where, params=params)
        return await awaited(partial(frames.to_polars, rows))

    async def head(
        self,
        n: int = 5,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        params: Params | None = None,
    ) -> pa.Table:
        """Return the first rows; see `Table.head`."""
        return await awaited(
            partial(self.source.head, n, columns=columns, where=where, params=params)
        )

    async def count(self, where: str | None = None, *, params: Params | None = None) -> int:
        """Return the number of rows; see `Table.count`."""
        return await awaited(partial(self.source.count, where, params=params))

    async def batches(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        params: Params | None = None,
    ) -> AsyncIterator[pa.RecordBatch]:
        """Yield the rows as record batches: `async for batch in table.aio().batches()`.

        Args:
            columns: The names of columns to return, in order; all when None.
            where: A SQL boolean expression; rows for which it is true are kept.
            params: Values for `:name`, by name, or for `?`, in order.
        """
        pool = worker()
        try:
            begin = partial(self.source.to_reader, columns=columns, where=where, params=params)
            reader = await awaited(begin, pool=pool)
            try:
                while (batch := await awaited(partial(next, reader, None), pool=pool)) is not None:
                    yield batch
            finally:
                await uninterrupted(reader.close, pool=pool)
        finally:
            pool.shutdown(wait=False)


def _collected(
    source: Rows, columns: Sequence[str] | None, where: str | None, stop: Event
) -> pa.Table:
    """Return all rows, or those read until `stop` was set."""
    with source.to_reader(columns=columns, where=where) as reader:
        batches = []
        for batch in reader:
            if stop.is_set():
                break
            batches.append(batch)
        return pa.Table.from_batches(batches, reader.schema)
