"""The result of a query, which returns the rows as Arrow, pandas, Polars, dicts or pages."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import pyarrow as pa

from lakeward.model.records import HIDDEN
from lakeward.model.shown import Shown, html_table
from lakeward.read.describe import PageColumn, PageRows, page_of, pages_of

if TYPE_CHECKING:
    from lakeward.model.lineage.origin import Origin

_SHOWN: Final = 20
_CELL: Final = 80


class Running(Protocol):
    """A query that an engine has planned."""

    def reader(self) -> pa.RecordBatchReader:
        """Run the query and return its rows as a stream."""


@dataclass(frozen=True)
class QueryPage(PageRows):
    """A page of the rows of a query.

    Attributes:
        offset: How many rows are before this page.
        data: The rows as an Arrow table.
        more: Whether more rows follow.
    """

    schema: tuple[PageColumn, ...]
    offset: int
    data: pa.Table = field(metadata=HIDDEN)
    more: bool


def first_rows(reader: pa.RecordBatchReader, limit: int) -> QueryPage:
    """Return the first `limit` rows of a reader as a page, and close the reader."""
    schema = _columns(reader)
    rows, more = page_of(reader, 0, limit)
    return QueryPage(schema, 0, rows, more)


def _columns(reader: pa.RecordBatchReader) -> tuple[PageColumn, ...]:
    return tuple(PageColumn(f.name, str(f.type), f.nullable) for f in reader.schema)


class QueryResult(Shown):
    """The rows of a query over pinned tables; the query runs when rows are first read.

    `to_arrow` keeps the rows in memory and releases the tables; `close` releases them too. Engines
    that accept an Arrow stream accept the object itself: `pl.DataFrame(result)`,
    `pa.table(result)`.
    """

    def __init__(
        self,
        running: Running,
        release: Callable[[], None],
        forget: Callable[[], None],
        origin: Origin | None = None,
    ) -> None:
        self._origin = origin
        self._running: Running | None = running
        self._release = release
        self._rows: pa.Table | None = None
        # A result that is dropped without `close` stops renewing its pin, which then expires.
        self._forget = weakref.finalize(self, forget)

    def _lineage_origin(self) -> Origin | None:
        return self._origin

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return self._rows.schema if self._rows is not None else self.to_reader().schema

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.schema.names)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream of record batches, for results larger than memory."""
        if self._rows is not None:
            return self._rows.to_reader()
        if self._running is None:
            from lakeward.errors import InvalidInput

            what = "The result was closed before its rows were read."
            raise InvalidInput(what, hint="Run the query again.")
        found = self._running.reader()

        def batches() -> Iterator[pa.RecordBatch]:
            # Keep a reference to the result while rows are read, so that its tables stay pinned.
            held = self
            yield from found
            del held

        return pa.RecordBatchReader.from_batches(found.schema, batches())

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table."""
        if self._rows is None:
            self._rows = self.to_reader().read_all()
            self.close()
        return self._rows

    def to_pandas(self) -> Any:
        """Return the rows as a pandas DataFrame.

        Raises:
            MissingExtra: pandas is not installed.
        """
        from lakeward.engines.arrow.frames import to_pandas

        return to_pandas(self.to_arrow())

    def to_polars(self) -> Any:
        """Return the rows as a Polars DataFrame.

        Raises:
            MissingExtra: Polars is not installed.
        """
        from lakeward.engines.arrow.frames import to_polars

        return to_polars(self.to_arrow())

    def to_pylist(self) -> list[dict[str, Any]]:
        """Return the rows as dicts."""
        found: list[dict[str, Any]] = self.to_arrow().to_pylist()
        return found

    def pages(self, *, limit: int | None = None, size: int = 10_000) -> Iterator[QueryPage]:
        """Yield the rows in pages, for results larger than memory; yield at least one page.

        Args:
            limit: How many rows to read at most; all when None.
            size: How many rows a page has at most.
        """
        reader, offset = self.to_reader(), 0
        schema = _columns(reader)
        for rows, more in pages_of(reader, 0, limit, size):
            yield QueryPage(schema, offset, rows, more)
            offset += rows.num_rows
        self.close()

    def close(self) -> None:
        """Release the tables; rows that were read stay available."""
        if self._running is not None:
            self._running = None
            self._forget.detach()
            self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return int(self.to_arrow().num_rows)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as a stream of Arrow's C interface."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        rows = self.to_arrow()
        return f"QueryResult({rows.num_rows:,} rows, columns={list(rows.schema.names)})"

    def _repr_html_(self) -> str:
        rows = self.to_arrow()
        shown = rows.slice(0, _SHOWN)
        more = rows.num_rows - shown.num_rows
        title = f"{rows.num_rows:,} rows" + (f", the first {_SHOWN} of them" if more else "")
        columns = [c.to_pylist() for c in shown.columns]
        lines = ([_cell(c[n]) for c in columns] for n in range(shown.num_rows))
        return html_table(title, list(rows.schema.names), lines)


def of_table(rows: pa.Table, origin: Origin | None = None) -> QueryResult:
    """Return a query result with the rows of a table in memory."""
    return QueryResult(_Known(rows), _nothing, _nothing, origin)


class _Known:
    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def reader(self) -> pa.RecordBatchReader:
        return self._rows.to_reader()


def _nothing() -> None:
    return


def _cell(value: Any) -> str | None:
    if value is None:
        return None
    text = str(value)
    return text if len(text) <= _CELL else text[: _CELL - 1] + "…"
