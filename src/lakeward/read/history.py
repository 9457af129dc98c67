"""Records of the log: versions, their actions, transactions, and totals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lakeward.errors import TransactionNotFound
from lakeward.formats.iceberg.summary import SNAPSHOT_ID
from lakeward.log import commits, files, heads, renames, transactions
from lakeward.log.commits import LoggedCommit
from lakeward.log.database import Session
from lakeward.log.transactions import Registration
from lakeward.model.clock import to_datetime
from lakeward.model.commit import Head, TransactionState
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile
from lakeward.model.records import in_json
from lakeward.model.row_counts import RowCounts, row_counts
from lakeward.model.schema import Schema
from lakeward.model.values import Value


@dataclass(frozen=True, slots=True)
class Version:
    """A version in a table's history.

    Attributes:
        changed: Rows that the commit inserted, updated and deleted; None if it does not record it.
        snapshot_id: The Iceberg snapshot that the commit made; None if it made none.
        properties: The properties that the user gave to the transaction.
    """

    version: int
    timestamp: datetime
    transaction_id: str
    operation: str
    parameters: dict[str, Any]
    metrics: dict[str, Any]
    actor: str
    engine: str
    message: str | None
    members: int
    attempts: int
    adopted: bool
    changed: RowCounts | None = None
    snapshot_id: int | None = None
    properties: dict[str, str] = field(default_factory=dict)


def version_of(source: LoggedCommit) -> Version:
    """Return a commit of the log as a version."""
    info = source.info
    return Version(
        version=source.version,
        timestamp=to_datetime(source.timestamp_ms),
        transaction_id=info.transaction_id,
        operation=info.operation,
        parameters=dict(info.parameters),
        metrics=dict(info.metrics),
        actor=info.actor,
        engine=info.engine,
        message=info.message,
        members=info.members,
        attempts=info.attempts,
        adopted=info.adopted,
        properties=dict(info.properties),
        changed=row_counts(info),
        snapshot_id=(info.extra or {}).get(SNAPSHOT_ID),
    )


@dataclass(frozen=True, slots=True)
class Entry:
    """One action of one version.

    Attributes:
        version: The version of the table.
        table: The table's id, which stays the same when the table is renamed.
        action: `commit info`, `protocol`, `set schema`, `set properties`, `txn`, `add partition`,
            `remove partition`, `remove file`, `add file` or `change file`.
        timestamp: When the version was committed.
        commit_id: The transaction's id.
        path: The file, or the partition as `column=value/…`.
        properties: Other facts of the action.
        schema: The new columns, if the action sets them.
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
    """Yield the actions of a version in the order of publication; `definition` is the version's.

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


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """A registered transaction.

    Attributes:
        process: Host and process id of the process that opened it.
        opened: When it was registered.
        lease_until: When its lease expires, unless it is renewed.
        ended: When it was committed or rolled back; None while it is open.
        versions: The version that it made of each table, by the table's name at the commit; empty
            unless ratified.
        names_now: The name of each table now, or its last one if it was dropped, by its name at the
            commit.
        dropped: Names at the commit of the tables that were dropped since.
    """

    transaction_id: str
    state: TransactionState
    actor: str
    isolation: str
    message: str | None
    process: str
    opened: datetime
    lease_until: datetime
    ended: datetime | None
    versions: Mapping[str, int]
    names_now: Mapping[str, str]
    dropped: tuple[str, ...] = ()

    @property
    @in_json
    def committed(self) -> bool:
        """Whether the transaction was ratified."""
        return self.state is TransactionState.RATIFIED


def records(
    session: Session, limit: int, state: TransactionState | None = None
) -> list[TransactionRecord]:
    """Return the newest transactions, optionally only those of one state, newest first."""
    return [_record(session, r) for r in transactions.newest(session, limit, state)]


def record(session: Session, transaction_id: str) -> TransactionRecord:
    """Return a transaction by its id; raise `TransactionNotFound` if there is none."""
    found = transactions.get(session, transaction_id)
    if found is None:
        what = f"The log knows no transaction {transaction_id}."
        raise TransactionNotFound(what, transaction_id=transaction_id)
    return _record(session, found)


def _record(session: Session, source: Registration) -> TransactionRecord:
    committed = source.state is TransactionState.RATIFIED
    members = renames.members(session, source.transaction_id) if committed else {}
    return TransactionRecord(
        transaction_id=source.transaction_id,
        state=source.state,
        actor=source.actor,
        isolation=source.isolation,
        message=source.message,
        process=source.process,
        opened=to_datetime(source.opened_ms),
        lease_until=to_datetime(source.lease_until_ms),
        ended=None if source.ended_ms is None else to_datetime(source.ended_ms),
        versions={name: version for name, (version, _) in members.items()},
        names_now={name: now for name, (_, now) in members.items()},
        dropped=renames.dropped_members(session, source.transaction_id) if members else (),
    )


@dataclass(frozen=True, slots=True)
class Stats:
    """Numbers of tables, versions and entries in the log."""

    tables: int
    versions: int
    entries: int


def stats(session: Session) -> Stats:
    """Return how many tables, versions and entries the log has."""
    versions = commits.count(session)
    return Stats(
        tables=len(heads.names(session)),
        versions=versions,
        entries=versions + files.count(session),
    )
