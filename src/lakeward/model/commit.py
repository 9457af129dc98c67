"""Commits: what a transaction did to one table, and the nouns around it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from lakeward.model.clock import now_ms
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile, LoggedFile
from lakeward.model.names import TableName


class Isolation(StrEnum):
    """What a transaction may see of others, and what must still hold when it is ratified.

    `read_committed`: each operation sees the newest committed version; changes apply to whatever is
    newest at ratification. `snapshot`: one cut over all tables; what is replaced or removed must be
    unchanged since. `serializable`: the same cut; what was read must be unchanged, too.
    """

    READ_COMMITTED = "read_committed"
    SNAPSHOT = "snapshot"
    SERIALIZABLE = "serializable"


class TransactionState(StrEnum):
    """Where a transaction is. Only an open one can be ratified."""

    OPEN = "open"
    RATIFIED = "ratified"
    ROLLED_BACK = "rolled_back"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Publication:
    """One format in which a table is published.

    Attributes:
        format: Its name.
        pointer: The metadata document of the newest version, if the format has one.
        published: A version up to which everything is surely published.
    """

    format: str
    pointer: str | None
    published: int


@dataclass(frozen=True, slots=True)
class Head:
    """A table's current state: the row that every commit locks.

    Attributes:
        guarded: Writers that do not go through the lake are kept out.
        drift: `adopt` or `refuse` the commits of others, on a table that is not guarded.
        published: A version up to which everything is surely published.
        pointer: The metadata document that the newest version stands for, on formats that have
            a catalog for it.
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

    @property
    def publications(self) -> tuple[Publication, ...]:
        """The formats in which the table is published: today one."""
        return (Publication(self.format, self.pointer, self.published),)

    def advanced(self, version: int, timestamp_ms: int, definition_id: int) -> Head:
        """The head after a commit. Written out, because every commit waits for it."""
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
        )


@dataclass(frozen=True, slots=True)
class AppTransaction:
    """How far an application got: its own id and its own ever-growing number."""

    app_id: str
    version: int
    updated_ms: int | None = None


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """What is told of a commit, beside its actions.

    Attributes:
        transaction_id: Shared by all members of the transaction.
        operation: `CREATE`, `WRITE`, `OVERWRITE`, `REMOVE`, …
        parameters: Of the operation, for people.
        metrics: What it did, in numbers.
        actor: Who.
        engine: What program.
        message: Why.
        members: How many tables the transaction changed.
        attempts: How often it was tried before it was ratified.
        blind: It only added rows, without looking at the table.
        data_change: False where rows only moved (compaction).
        adopted: The commit was taken from published files, whose bytes are not ours.
        extra: What an adopted commit said of itself.
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


@dataclass(frozen=True, slots=True)
class Commit:
    """One version of one table, with its actions: all that its publication is made of.

    Attributes:
        version: Of the table.
        timestamp_ms: Later than the version before.
        info: What is told of it.
        added: Its files, in order; a file of the version before may come again under its path,
            with another deletion vector.
        removed: Files that end here.
        definition: The new one, where it changes.
        app_transactions: How far applications got.
        change_files: The rows that it inserted, updated and deleted, each with the kind of its
            change. Where there are some, they alone tell of the change; where there are none, the
            rows of added and removed files do.
    """

    version: int
    timestamp_ms: int
    info: CommitInfo
    added: tuple[DataFile, ...] = ()
    removed: tuple[LoggedFile, ...] = ()
    definition: Definition | None = None
    app_transactions: tuple[AppTransaction, ...] = ()
    change_files: tuple[DataFile, ...] = ()


def new_transaction_id() -> str:
    """An id that no other transaction has; ids made later sort later, by and large."""
    return f"{now_ms():012x}{secrets.token_hex(10)}"
