"""A transaction that is about to be ratified, for those who look at it before: it cannot change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

import pyarrow as pa

from lakeward.model.commit import Isolation
from lakeward.model.definition import Definition
from lakeward.model.expressions.where import parse
from lakeward.model.file import DataFile, LoggedFile
from lakeward.model.names import TableName
from lakeward.read.plan import file_may_match
from lakeward.read.scan import check_columns, read_files
from lakeward.write.plan.change import metrics, summary
from lakeward.write.transaction.member import Member


@dataclass(frozen=True, slots=True)
class StagedTable:
    """What the transaction is about to do to one table.

    Attributes:
        name: The table.
        base_version: The version that the change was made for.
        operation: As history will show it.
        parameters: Of the operation.
        metrics: Files, rows and bytes, as history will show them.
        added: Files to be added, with their rows and statistics: new rows, and rows that stay when
            others of their file go.
        removed: Files to be removed.
        definition: Schema, partitioning, properties and constraints.
        new_definition: What they shall become, if they change.
    """

    name: str
    base_version: int
    operation: str
    parameters: Mapping[str, Any]
    metrics: Mapping[str, Any]
    added: tuple[DataFile, ...]
    removed: tuple[LoggedFile, ...]
    definition: Definition
    new_definition: Definition | None
    _member: Member = field(repr=False)

    def read(self, *, columns: Sequence[str] | None = None, where: str | None = None) -> pa.Table:
        """The rows of the files to be added.

        Args:
            columns: Names, in the order wanted; all when None.
            where: A SQL boolean expression; rows for which it is true are kept.
        """
        check_columns(columns, self.definition, self.name)
        scope = None if where is None else parse(where, self.definition.schema)
        files = [
            LoggedFile(f, self.base_version + 1, n)
            for n, f in enumerate(self.added)
            if scope is None or file_may_match(scope, f)
        ]
        return read_files(
            self._member.context.storage,
            self._member.change.head,
            self.definition,
            files,
            columns=columns,
            where=scope,
        ).read_all()


@dataclass(frozen=True, slots=True)
class StagedCommit:
    """A transaction whose rows are staged and checked, and that nobody sees yet.

    Attributes:
        transaction_id: Under which it will be known.
        isolation: Its level.
        actor: Who.
        message: Why.
        attempts: How often it was tried, this time included.
        tables: What it does to each table, by name.
    """

    transaction_id: str
    isolation: Isolation
    actor: str
    message: str | None
    attempts: int
    tables: Mapping[str, StagedTable]


class Pending(Protocol):
    """What is told of the transaction itself."""

    transaction_id: str
    isolation: Isolation
    message: str | None
    attempts: int


def staged_commit(
    transaction: Pending, actor: str, members: Mapping[TableName, Member]
) -> StagedCommit:
    """A transaction as it stands."""
    return StagedCommit(
        transaction.transaction_id,
        transaction.isolation,
        actor,
        transaction.message,
        transaction.attempts,
        MappingProxyType({str(name): _table(member) for name, member in members.items()}),
    )


def _table(member: Member) -> StagedTable:
    change = member.change
    operation = summary(change)
    return StagedTable(
        name=str(change.head.name),
        base_version=change.head.version,
        operation=operation.name,
        parameters=MappingProxyType(dict(operation.parameters)),
        metrics=MappingProxyType(metrics(change)),
        added=tuple(change.added),
        removed=tuple(change.removed[k] for k in sorted(change.removed)),
        definition=change.definition,
        new_definition=change.new_definition,
        _member=member,
    )
