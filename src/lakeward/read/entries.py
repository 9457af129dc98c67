"""A version as log entries: every action that it took, one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lakeward.log import commits, files
from lakeward.log.database import Session
from lakeward.model.clock import to_datetime
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile
from lakeward.model.schema import Schema
from lakeward.model.values import Value


@dataclass(frozen=True, slots=True)
class Entry:
    """One action of one version.

    Attributes:
        version: Of the table.
        table: Its id, whatever it is called.
        action: `commit info`, `protocol`, `set schema`, `set properties`, `txn`, `add partition`,
            `remove partition`, `remove file`, `add file` or
            `change file`.
        timestamp: Of the commit.
        commit_id: The transaction's id.
        path: The file, or the partition as `column=value/…`.
        properties: What the action says beside that.
        schema: The new columns, where the action sets them.
    """

    version: int
    table: str
    action: str
    timestamp: datetime
    commit_id: str
    path: str | None = None
    properties: Mapping[str, Any] = field(default_factory=dict)
    schema: Schema | None = None


def entries(session: Session, head: Head, definition: Definition, version: int) -> Iterator[Entry]:
    """The actions of a version, in the order in which they are published.

    Args:
        session: To read with.
        head: The table.
        definition: At that version.
        version: Which.

    Raises:
        VersionNotFound: There is no such version.
    """
    commit = commits.full(session, head.table_id, version)
    moment = to_datetime(commit.timestamp_ms)

    def entry(action: str, path: str | None = None, **more: Any) -> Entry:
        return Entry(
            version, head.uuid, action, moment, commit.info.transaction_id, path=path, **more
        )

    about = {"operation": commit.info.operation, **commit.info.parameters}
    yield entry("commit info", properties=about)
    if commit.definition is not None:
        yield entry("protocol", properties=commit.definition.protocol)
        yield entry("set schema", schema=commit.definition.schema)
        yield entry("set properties", properties=commit.definition.properties)
    for application in commit.app_transactions:
        about = {"app_id": application.app_id, "version": application.version}
        yield entry("txn", properties=about)
    removed = [f.file for f in commit.removed]
    for values in _partitions(commit.added):
        if not files.has_partition(session, head.table_id, version - 1, values):
            yield entry("add partition", _directory(values, definition))
    for values in _partitions(removed):
        if not files.has_partition(session, head.table_id, version, values):
            yield entry("remove partition", _directory(values, definition))
    for action, group in (("remove file", removed), ("add file", commit.added)):
        for found in group:
            about = {"size": found.size, "rows": found.rows}
            yield entry(action, found.path, properties=about)
    for found in commit.change_files:
        yield entry("change file", found.path, properties={"size": found.size})


def _partitions(source: Iterable[DataFile]) -> list[Mapping[int, Value]]:
    distinct = {tuple(sorted(f.partition.items())): f.partition for f in source if f.partition}
    return list(distinct.values())


def _directory(values: Mapping[int, Value], definition: Definition) -> str:
    names = {f.id: f.name for f in definition.partition_fields}
    return "/".join(f"{names.get(i, i)}={v}" for i, v in values.items())
