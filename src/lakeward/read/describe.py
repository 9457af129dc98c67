"""Records of a table at a version: a line for lists, all its settings, and a page of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa

from lakeward.engines.arrow.values import python_rows, python_values
from lakeward.model.records import HIDDEN, in_json
from lakeward.model.schema import Schema


@dataclass(frozen=True)
class TableInfo:
    """A table at a version, as lists of tables show it."""

    name: str
    format: str
    guarded: bool
    version: int
    timestamp: datetime
    files: int
    rows: int | None
    bytes: int
    location: str


class ColumnInfo(NamedTuple):
    """A column of a table."""

    id: int
    name: str
    type: str
    nullable: bool
    comment: str | None


def columns_of(schema: Schema) -> tuple[ColumnInfo, ...]:
    """The columns of a schema, as records."""
    return tuple(ColumnInfo(f.id, f.name, str(f.type), f.nullable, f.comment) for f in schema)


@dataclass(frozen=True)
class TableDetails(TableInfo):
    """A table at a version, with its columns and settings.

    Attributes:
        newest_version: The newest version of the table.
        drift: What is done about commits of other writers; None where they are kept out.
        snapshot_id: The Iceberg snapshot of the version, where there is one.
        metadata_location: The newest Iceberg metadata document, where there is one.
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


@dataclass(frozen=True)
class Page:
    """Some rows of a version.

    Attributes:
        offset: How many rows come before the page.
        data: The rows, as Arrow has them.
        more: Whether other rows follow.
    """

    table: str
    version: int
    timestamp: datetime
    schema: tuple[PageColumn, ...]
    offset: int
    data: pa.Table = field(metadata=HIDDEN)
    more: bool

    @property
    @in_json
    def rows(self) -> list[dict[str, Any]]:
        """The rows as dicts by the names of the columns."""
        return python_rows(self.data)

    def columns(self) -> list[list[Any]]:
        """The values of each column, as Python has them."""
        return [python_values(column) for column in self.data.columns]


def page_of(reader: pa.RecordBatchReader, offset: int, limit: int) -> tuple[pa.Table, bool]:
    """The rows of a page, and whether others follow; no more is read than that takes."""
    skip, wanted = offset, limit + 1
    batches = []
    with reader:
        schema = reader.schema
        for batch in reader:
            part = batch.slice(skip, wanted)
            skip = max(0, skip - batch.num_rows)
            wanted -= part.num_rows
            batches.append(part)
            if not wanted:
                break
    rows = pa.Table.from_batches(batches, schema)
    return rows.slice(0, limit), rows.num_rows > limit
