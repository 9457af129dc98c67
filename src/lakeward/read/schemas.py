"""The schemas that a table had, each with its number, its versions, and the commit that set it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from lakeward.log import commits, definitions
from lakeward.log.database import Session
from lakeward.model.clock import to_datetime
from lakeward.model.commit import Head
from lakeward.model.file import LIVE
from lakeward.model.records import HIDDEN
from lakeward.model.schema import Schema
from lakeward.read.describe import ColumnInfo, columns_of


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """A schema that a table had in a range of versions.

    Attributes:
        number: The schema's number, counted from 0.
        since: The first version with the schema.
        until: The last version with the schema; None for the current schema.
        timestamp: When the schema was committed.
        transaction_id: The transaction that committed it.
        actor: Who changed it.
        message: The message of the commit.
        operation: The operation of the commit, as in the table's history.
        columns: The columns, as records.
        schema: The schema itself.
    """

    number: int
    since: int
    until: int | None
    timestamp: datetime | None
    transaction_id: str | None
    actor: str | None
    message: str | None
    operation: str | None
    columns: tuple[ColumnInfo, ...]
    schema: Schema = field(repr=False, metadata=HIDDEN)

    def has(self, version: int) -> bool:
        """Return whether a version has this schema."""
        return self.since <= version and (self.until is None or version <= self.until)


def schemas_of(session: Session, head: Head) -> list[SchemaVersion]:
    """Return every schema of a table, oldest first; changes of other settings make no new one."""
    spans: list[tuple[int, int, Schema]] = []
    for since, until, definition in definitions.of_table(session, head.table_id):
        if spans and spans[-1][2] == definition.schema:
            spans[-1] = (spans[-1][0], until, definition.schema)
        else:
            spans.append((since, until, definition.schema))
    return [
        _schema(session, head, number, since, until, schema)
        for number, (since, until, schema) in enumerate(spans)
    ]


def _schema(
    session: Session, head: Head, number: int, since: int, until: int, schema: Schema
) -> SchemaVersion:
    commit = commits.one(session, head.table_id, since)
    info = None if commit is None else commit.info
    return SchemaVersion(
        number=number,
        since=since,
        until=None if until == LIVE else until - 1,
        timestamp=None if commit is None else to_datetime(commit.timestamp_ms),
        transaction_id=None if info is None else info.transaction_id,
        actor=None if info is None else info.actor,
        message=None if info is None else info.message,
        operation=None if info is None else info.operation,
        columns=columns_of(schema),
        schema=schema,
    )
