"""The forms in which rows are read, for everything that can give them as a stream of batches.

In an event loop the same forms are awaited, and a cancelled task ends its reading.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Sequence
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any

from lakeward.model import arguments
from lakeward.model.awaiting import awaited, uninterrupted, worker
from lakeward.model.shown import Shown

if TYPE_CHECKING:
    import pyarrow as pa


class Readable(Shown):
    """Rows as Arrow, pandas and Polars; engines that take an Arrow stream take the object itself.

    `pl.DataFrame(table)`, `pa.table(table)`, or `table` in a query of DuckDB.
    """

    __slots__ = ()

    @abstractmethod
    def to_reader(
        self, *, columns: Sequence[str] | None = None, where: str | None = None
    ) -> pa.RecordBatchReader:
        """The rows as a stream of record batches, for more than memory holds.

        Args:
            columns: Names, in the order wanted; all when None.
            where: A SQL boolean expression; rows for which it is true are kept.
        """

    def to_arrow(
        self, *, columns: Sequence[str] | None = None, where: str | None = None
    ) -> pa.Table:
        """The rows as an Arrow table.

        Args:
            columns: Names, in the order wanted; all when None.
            where: A SQL boolean expression; rows for which it is true are kept.
        """
        return self.to_reader(columns=columns, where=where).read_all()

    def to_pandas(self, *, columns: Sequence[str] | None = None, where: str | None = None) -> Any:
        """The rows as a frame of pandas.

        Columns of integers or booleans that have missing values get pandas' nullable types
        (`Int64`, `boolean`), so that no value changes.

        Args:
            columns: Names, in the order wanted; all when None.
            where: A SQL boolean expression; rows for which it is true are kept.

        Raises:
            MissingExtra: pandas is not installed.
        """
        from lakeward.engines.arrow.frames import to_pandas

        return to_pandas(self.to_arrow(columns=columns, where=where))

    def to_polars(self, *, columns: Sequence[str] | None = None, where: str | None = None) -> Any:
        """The rows as a frame of Polars.

        Args:
            columns: Names, in the order wanted; all when None.
            where: A SQL boolean expression; rows for which it is true are kept.

        Raises:
            MissingExtra: Polars is not installed.
        """
        from lakeward.engines.arrow.frames import to_polars

        return to_polars(self.to_arrow(columns=columns, where=where))

    def head(
        self, n: int = 5, *, columns: Sequence[str] | None = None, where: str | None = None
    ) -> pa.Table:
        """The first rows, as an Arrow table; no more is read than that takes.

        Args:
            n: At most so many.
            columns: Names, in the order wanted; all when None.
            where: A SQL boolean expression; rows for which it is true are kept.
        """
        from lakeward.read.describe import page_of

        arguments.whole(n, "n")
        rows, _ = page_of(self.to_reader(columns=columns, where=where), 0, n)
        return rows

    def count(self, where: str | None = None) -> int:
        """How many rows there are, or how many of them satisfy a condition.

        Args:
            where: A SQL boolean expression; rows for which it is true are counted.
        """
        with self.to_reader(where=where) as reader:
            return sum(batch.num_rows for batch in reader)

    def aio(self) -> AsyncRows:
        """The same rows for an event loop."""
        return AsyncRows(self)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as a stream of Arrow's C interface, read as the consumer asks for them."""
        return self.to_reader().__arrow_c_stream__(requested_schema)


class AsyncRows(Shown):
    """Rows that are awaited: `await table.aio().to_arrow()`. They are read in a thread.

    A task that is cancelled ends the reading after the batch that is being read.

    Attributes:
        source: The table or snapshot itself.
    """

    def __init__(self, source: Readable) -> None:
        self.source = source

    async def to_arrow(
        self, *, columns: Sequence[str] | None = None, where: str | None = None
    ) -> pa.Table:
        """The rows as an Arrow table; see `Table.to_arrow`."""
        stop = Event()
        return await awaited(partial(_collected, self.source, columns, where, stop), stop=stop.set)

    async def to_pandas(
        self, *, columns: Sequence[str] | None = None, where: str | None = None
    ) -> Any:
        """The rows as a frame of pandas; see `Table.to_pandas`."""
        from lakeward.engines.arrow.frames import to_pandas

        rows = await self.to_arrow(columns=columns, where=where)
        return await awaited(partial(to_pandas, rows))

    async def to_polars(
        self, *, columns: Sequence[str] | None = None, where: str | None = None
    ) -> Any:
        """The rows as a frame of Polars; see `Table.to_polars`."""
        from lakeward.engines.arrow.frames import to_polars

        rows = await self.to_arrow(columns=columns, where=where)
        return await awaited(partial(to_polars, rows))

    async def head(
        self, n: int = 5, *, columns: Sequence[str] | None = None, where: str | None = None
    ) -> pa.Table:
        """The first rows; see `Table.head`."""
        return await awaited(partial(self.source.head, n, columns=columns, where=where))

    async def count(self, where: str | None = None) -> int:
        """How many rows there are; see `Table.count`."""
        return await awaited(partial(self.source.count, where))

    async def batches(
        self, *, columns: Sequence[str] | None = None, where: str | None = None
    ) -> AsyncIterator[pa.RecordBatch]:
        """The rows as record batches: `async for batch in table.aio().batches()`.

        Args:
            columns: Names, in the order wanted; all when None.
            where: A SQL boolean expression; rows for which it is true are kept.
        """
        pool = worker()
        try:
            begin = partial(self.source.to_reader, columns=columns, where=where)
            reader = await awaited(begin, pool=pool)
            try:
                while (batch := await awaited(partial(next, reader, None), pool=pool)) is not None:
                    yield batch
            finally:
                await uninterrupted(reader.close, pool=pool)
        finally:
            pool.shutdown(wait=False)


def _collected(
    source: Readable, columns: Sequence[str] | None, where: str | None, stop: Event
) -> pa.Table:
    """All rows, unless the reading is to stop."""
    import pyarrow as pa

    with source.to_reader(columns=columns, where=where) as reader:
        batches = []
        for batch in reader:
            if stop.is_set():
                break
            batches.append(batch)
        return pa.Table.from_batches(batches, reader.schema)
