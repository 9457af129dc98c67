"""What tests of Iceberg tables do with pyiceberg beside the lake."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

import lakeward as lw
from lakeward.log import catalog
from lakeward.model.closing import Closing
from lakeward.model.names import TableName
from tests.behaviour.samples import exact_rows
from tests.interop.readers import as_ours


class Stranger(Closing):
    """pyiceberg on the catalog of a lake, which it opens by SQLAlchemy's URL."""

    def __init__(self, found: SqlCatalog) -> None:
        self.catalog = found

    def close(self) -> None:
        """Let go of its connections."""
        self.catalog.engine.dispose()

    def table(self, name: str) -> Any:
        """A table as it is now."""
        return self.catalog.load_table(catalog.identifier(TableName.parse(name)))

    def rows(self, name: str, snapshot_id: int | None = None) -> pa.Table:
        """The rows by pyiceberg's own scan."""
        return self.table(name).scan(snapshot_id=snapshot_id).to_arrow()

    def append(self, name: str, rows: list[dict[str, Any]]) -> None:
        """A foreign append."""
        table = self.table(name)
        table.append(pa.Table.from_pylist(rows, table.schema().as_arrow()))


def agree(stranger: Stranger, table: lw.Table) -> int:
    """Assert that pyiceberg reads what the lake reads, now; how many rows that are."""
    ours = table.to_arrow()
    theirs = stranger.rows(table.name)
    assert exact_rows(as_ours(theirs, ours.schema)) == exact_rows(ours)
    return ours.num_rows


def every_version(table: lw.Table) -> list[list[Any]]:
    """The sorted ids of each version, oldest first."""
    return [
        sorted(table.at(version=v.version).to_arrow()["id"].to_pylist())
        for v in reversed(table.history())
    ]
