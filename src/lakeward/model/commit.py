"""Commits: the changes of a transaction to one table; heads, and states of transactions."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from lakeward.model.definition import Definition
from lakeward.model.file import DataFile, LoggedFile
from lakeward.model.names import TableName


class Isolation(StrEnum):
    """What a transaction sees of others, and what must be unchanged when it commits.

    `read_committed`: each operation sees the newest committed version, and changes apply to the
    newest at the commit. `snapshot`: one consistent snapshot of all tables; rows that the
    transaction replaces or removes must be unchanged since. `serializable`: the same snapshot; rows
    that the transaction read must be unchanged, too.
    """

    READ_COMMITTED = "read_committed"
    SNAPSHOT = "snapshot"
    SERIALIZABLE = "serializable"


class TransactionState(StrEnum):
    """The state of a transaction. Only an open one can be ratified."""

    OPEN = "open"
    RATIFIED = "ratified"
    ROLLED_BACK = "rolled_back"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Head:
    """A table's current state: the row that every commit locks.

    `drift` is `adopt` or `refuse`, for foreign commits to an unguarded table. Every version up to
    `published` is published and synced. `pointer` is the catalog's metadata document of the newest
    version, for formats that have one. `policy_id` is the newest policy that matches the table.
    """

    table_id: int
    uuid: str
    name: TableName
    format: str
    location: str
    guarded: bool
    drift: str
    version: int
    timestamp_ms: int
    definition_id: int
    published: int
    audit_seq: int
    audit_hash: str
    pointer: str | None = None
    policy_id: int = 0

    @property
    def publications(self) -> tuple[str, ...]:
        """The names of the formats in which the table is published: today one."""
        return (self.format,)

    def advanced(self, version: int, timestamp_ms: int, definition_id: int) -> Head:
        """Return the head after a commit; without `replace`, which is slower, for the hot path."""
        return Head(
            self.table_id,
            self.uuid,
            self.name,
            self.format,
            self.location,
            self.guarded,
            self.drift,
            version,
            timestamp_ms,
            definition_id,
            self.published,
            self.audit_seq,
            self.audit_hash,
            self.pointer,
            self.policy_id,
        )


@dataclass(frozen=True, slots=True)
class AppTransaction:
    """The progress of an application: its id, and a number that only grows."""

    app_id: str
    version: int
    updated_ms: int | None = None


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """Everything about a commit except its actions.

    All members of a transaction share its id. `engine` is the program that wrote the commit.
    `blind`: the commit only added rows, without reading. `data_change` is False if rows were only
    moved between files (compaction). `adopted`: the commit was read from published files, and
    `extra` has their information about it. `anchor`: the commit's own entry of the table's
    audit trail, as `lakeward.log.audit` writes it; the published files keep it. Commits of older
    versions of Lakeward have the entry before theirs. `properties` are set by the user, and
    published by their names.
    """

    transaction_id: str
    operation: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    actor: str = ""
    engine: str = ""
    message: str | None = None
    members: int = 1
    attempts: int = 1
    blind: bool = False
    data_change: bool = True
    adopted: bool = False
    extra: Mapping[str, Any] | None = None
    anchor: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    def anchored(self, anchor: str | None) -> CommitInfo:
        """Return the info with an anchor; without `replace`, which is slower, for the hot path."""
        return CommitInfo(
            self.transaction_id,
            self.operation,
            self.parameters,
            self.metrics,
            self.actor,
            self.engine,
            self.message,
            self.members,
            self.attempts,
            self.blind,
            self.data_change,
            self.adopted,
            self.extra,
            anchor,
            self.properties,
        )


@dataclass(frozen=True, slots=True)
class Commit:
    """One version of one table, with all actions to publish.

    A file of the previous version may be added again under its path, with another deletion vector.
    Change files have the rows that were inserted, updated and deleted; without change files, the
    rows of added and removed files are the change. `position` is the position of the transaction in
    the order of the whole lake; 0 if it has none. `returns` says from which version restored files
    come. `domains` are domain metadata to set, or to remove if the value is None.
    """

    version: int
    timestamp_ms: int
    info: CommitInfo
    added: tuple[DataFile, ...] = ()
    removed: tuple[LoggedFile, ...] = ()
    definition: Definition | None = None
    app_transactions: tuple[AppTransaction, ...] = ()
    change_files: tuple[DataFile, ...] = ()
    returns: Return | None = None
    position: int = 0
    domains: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Return:
    """From which version the restored files of a commit come; not recorded in the log.

    Attributes:
        version: Files are added as they were at this version.
        exact: After the commit the table has exactly the files of that version.
    """

    version: int
    exact: bool


def new_transaction_id() -> str:
    """Return a unique id; ids sort by time, those of one process also within a millisecond."""
    milliseconds, rest = divmod(time.time_ns(), 1_000_000)
    fraction = rest * 0x1000 // 1_000_000
    return f"{milliseconds:012x}{fraction:03x}{os.urandom(9).hex()[1:]}"
