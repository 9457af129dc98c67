"""The forms in which rows are read, for everything that can give them as a stream of batches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lakeward.model import arguments
from lakeward.model.shown import Shown

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeward.read.aio import AsyncRows


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
        from lakeward.read.aio import AsyncRows

        return AsyncRows(self)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as a stream of Arrow's C interface, read as the consumer asks for them."""
        return self.to_reader().__arrow_c_stream__(requested_schema)
