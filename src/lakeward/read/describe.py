"""Records of a table at a version: a summary, all its settings, and a page of its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lakeward.model.records import HIDDEN, in_json
from lakeward.model.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

_COLUMNS: Final = 8
"""How many columns `columns_line` shows."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Files, bytes and rows of a version; rows only if every file has a row count."""

    files: int
    bytes: int
    rows: int | None


@dataclass(frozen=True)
class TableInfo:
    """A table at a version, as lists of tables show it.

    Attributes:
        bytes: The size of the version's files.
        disk_bytes: The size of all files of the table, including those of older versions.
    """

    name: str
    format: str
    guarded: bool
    version: int
    timestamp: datetime
    files: int
    rows: int | None
    bytes: int
    disk_bytes: int
    location: str


class ColumnInfo(NamedTuple):
    """A column of a table."""

    id: int
    name: str
    type: str
    nullable: bool
    comment: str | None


def columns_of(schema: Schema) -> tuple[ColumnInfo, ...]:
    """Return the columns of a schema, as records."""
    return tuple(ColumnInfo(f.id, f.name, str(f.type), f.nullable, f.comment) for f in schema)


@dataclass(frozen=True)
class TableDetails(TableInfo):
    """A table at a version, with its columns and settings.

    Attributes:
        newest_version: The newest version of the table.
        drift: Whether commits of other writers are adopted or refused; None for guarded tables.
        snapshot_id: The Iceberg snapshot of the version; None if there is none.
        metadata_location: The newest Iceberg metadata document; None if there is none.
    """

    newest_version: int
    uuid: str
    drift: str | None
    snapshot_id: int | None
    metadata_location: str | None
    comment: str | None
    schema: tuple[ColumnInfo, ...]
    partition_by: tuple[str, ...]
    constraints: Mapping[str, str]
    properties: Mapping[str, str]
    protocol: Mapping[str, Any]


class PageColumn(NamedTuple):
    """A column of a page of rows."""

    name: str
    type: str
    nullable: bool


class PageRows:
    """The rows of a page in several forms."""

    data: pa.Table

    @property
    @in_json
    def rows(self) -> list[dict[str, Any]]:
        """The rows as dicts by column name."""
        from lakeward.engines.arrow.values import python_rows

        return python_rows(self.data)

    def columns(self) -> list[list[Any]]:
        """Return the values of each column, as Python objects."""
        from lakeward.engines.arrow.values import python_values

        return [python_values(column) for column in self.data.columns]


@dataclass(frozen=True)
class Page(PageRows):
    """Some rows of a version.

    Attributes:
        offset: How many rows are before the page.
        data: The rows, as an Arrow table.
        more: Whether other rows follow.
    """

    table: str
    version: int
    timestamp: datetime
    schema: tuple[PageColumn, ...]
    offset: int
    data: pa.Table = field(metadata=HIDDEN)
    more: bool


def page_of(reader: pa.RecordBatchReader, offset: int, limit: int) -> tuple[pa.Table, bool]:
    """Return the rows of a page, and whether more follow; read no more rows than necessary."""
    return next(pages_of(reader, offset, limit, max(1, limit)))


def pages_of(
    reader: pa.RecordBatchReader, offset: int, limit: int | None, size: int
) -> Iterator[tuple[pa.Table, bool]]:
    """Yield pages of at most `size` rows, at least one page, each with whether more rows follow.

    Skips `offset` rows, and yields at most `limit` rows in all.
    """
    import pyarrow as pa

    held: list[pa.RecordBatch] = []
    count, left = 0, limit
    with reader:
        for batch in reader:
            start, offset = min(offset, batch.num_rows), max(0, offset - batch.num_rows)
            while start < batch.num_rows:
                if left == 0 or count == size:
                    yield pa.Table.from_batches(held, reader.schema), True
                    if left == 0:
                        return
                    held, count = [], 0
                part = batch.slice(start, size - count if left is None else min(size - count, left))
                held.append(part)
                count, start = count + part.num_rows, start + part.num_rows
                left = None if left is None else left - part.num_rows
        yield pa.Table.from_batches(held, reader.schema), False


def columns_line(schema: Schema) -> str:
    """Return the columns on one line, shortened if there are many."""
    shown = [f"{f.name} {f.type}" for f in schema.fields[:_COLUMNS]]
    more = [f"and {len(schema.fields) - _COLUMNS} more"] if len(schema.fields) > _COLUMNS else []
    return ", ".join([*shown, *more])


def rows_line(count: int | None) -> str:
    """Return the number of rows as text, for display."""
    return "rows not counted" if count is None else f"{count:,} rows"
