"""The forms in which rows are read, for all sources that return a stream of batches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lakeward.model import arguments
from lakeward.model.parameters import Params
from lakeward.model.shown import Shown

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeward.read.aio import AsyncRows


class Readable(Shown):
    """Rows as Arrow, pandas and Polars; engines that accept an Arrow stream accept the object.

    For example `pl.DataFrame(table)`, `pa.table(table)`, or `table` in a query of DuckDB.
    """

    __slots__ = ()

    @abstractmethod
    def to_reader(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        params: Params | None = None,
    ) -> pa.RecordBatchReader:
        """Return the rows as a stream of record batches, for more than fits in memory.

        Args:
            columns: The names of columns to return, in order; all when None.
            where: A SQL boolean expression; rows for which it is true are kept.
            params: Values for `:name`, by name, or for `?`, in order.
        """

    def to_arrow(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        params: Params | None = None,
    ) -> pa.Table:
        """Return the rows as an Arrow table.

        Args:
            columns: The names of columns to return, in order; all when None.
            where: A SQL boolean expression; rows for which it is true are kept.
            params: Values for `:name`, by name, or for `?`, in order.
        """
        return self.to_reader(columns=columns, where=where, params=params).read_all()

    def to_pandas(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        params: Params | None = None,
    ) -> Any:
        """Return the rows as a pandas DataFrame.

        Columns of integers or booleans that have missing values get pandas' nullable types
        (`Int64`, `boolean`), so that no value changes.

        Args:
            columns: The names of columns to return, in order; all when None.
            where: A SQL boolean expression; rows for which it is true are kept.
            params: Values for `:name`, by name, or for `?`, in order.

        Raises:
            MissingExtra: pandas is not installed.
        """
        from lakeward.engines.arrow.frames import to_pandas

        return to_pandas(self.to_arrow(columns=columns, where=where, params=params))

    def to_polars(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        params: Params | None = None,
    ) -> Any:
        """Return the rows as a Polars DataFrame.

        Args:
            columns: The names of columns to return, in order; all when None.
            where: A SQL boolean expression; rows for which it is true are kept.
            params: Values for `:name`, by name, or for `?`, in order.

        Raises:
            MissingExtra: Polars is not installed.
        """
        from lakeward.engines.arrow.frames import to_polars

        return to_polars(self.to_arrow(columns=columns, where=where, params=params))

    def head(
        self,
        n: int = 5,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        params: Params | None = None,
    ) -> pa.Table:
        """Return the first rows as an Arrow table, reading no more than needed.

        Args:
            n: How many rows to return at most.
            columns: The names of columns to return, in order; all when None.
            where: A SQL boolean expression; rows for which it is true are kept.
            params: Values for `:name`, by name, or for `?`, in order.
        """
        from lakeward.read.describe import page_of

        arguments.whole(n, "n")
        rows, _ = page_of(self._first_rows(columns, where, params), 0, n)
        return rows

    def _first_rows(
        self, columns: Sequence[str] | None, where: str | None, params: Params | None
    ) -> pa.RecordBatchReader:
        """Return the rows to a caller who may stop after the first of them."""
        return self.to_reader(columns=columns, where=where, params=params)

    def count(self, where: str | None = None, *, params: Params | None = None) -> int:
        """Return the number of rows, or of those that satisfy a condition.

        Args:
            where: A SQL boolean expression; rows for which it is true are counted.
            params: Values for `:name`, by name, or for `?`, in order.
        """
        with self.to_reader(where=where, params=params) as reader:
            return sum(batch.num_rows for batch in reader)

    def aio(self) -> AsyncRows:
        """Return an object that reads these rows in an event loop."""
        from lakeward.read.aio import AsyncRows

        return AsyncRows(self)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as a stream of Arrow's C interface, read as they are consumed."""
        return self.to_reader().__arrow_c_stream__(requested_schema)
