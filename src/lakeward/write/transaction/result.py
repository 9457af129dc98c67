"""The result of a committed transaction, for its caller and for listeners."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lakeward.model.records import HIDDEN
from lakeward.model.shown import html_table


@dataclass(frozen=True, slots=True)
class CommitResult:
    """A committed transaction.

    Attributes:
        transaction_id: The id of the transaction, as in `lake.outcome` and in the history.
        versions: The new version of each table that it changed, by table name.
        timestamp: When it was committed; the same for all its tables.
        attempts: How often it was tried.
        published: False if a table's files could not be written yet. The commit is valid, and
            the files are written when the lake is opened next.
        value: The result of the function that `lake.run` ran, or the `RowChanges` of a change by a
            method of a table; None otherwise.
    """

    transaction_id: str
    versions: Mapping[str, int]
    timestamp: datetime | None = None
    attempts: int = 1
    published: bool = True
    value: Any = field(default=None, metadata=HIDDEN)

    def _repr_html_(self) -> str:
        title = f"transaction {self.transaction_id}"
        rows = ((name, version, self.timestamp) for name, version in self.versions.items())
        return html_table(title, ["table", "version", "committed"], rows)
