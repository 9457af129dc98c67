"""A conflict as a function of the user sees it: what was there, what others did, what we did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from lakeward.errors import Conflict
from lakeward.log import commits
from lakeward.model.commit import Head
from lakeward.model.expressions.where import parse
from lakeward.read.history import Version, version_of
from lakeward.read.scan import check_columns
from lakeward.read.snapshot import TableSnapshot
from lakeward.write.plan.change import summary
from lakeward.write.transaction.member import Member


@dataclass(frozen=True, slots=True)
class Collision:
    """One table in which others were faster.

    Attributes:
        transaction_id: Of the transaction that lost.
        table: The table's name.
        base_version: The version that the transaction started from.
        version: The newest version.
        kind: `removed`: a file that the transaction removes or rewrites is gone; `added`: rows
            appeared that it would have to replace or remove.
        reason: The same in words.
        commits: What others committed meanwhile, oldest first.
        operation: What the transaction did, as history would show it.
        parameters: Of the operation.
    """

    transaction_id: str
    table: str
    base_version: int
    version: int
    kind: str
    reason: str
    commits: tuple[Version, ...]
    operation: str
    parameters: Mapping[str, Any]
    _member: Member = field(repr=False)
    _head: Head = field(repr=False)

    def read_base(
        self, *, columns: Sequence[str] | None = None, where: str | None = None
    ) -> pa.Table:
        """The rows that the transaction started from."""
        return self._at(self._member.change.head).to_arrow(columns=columns, where=where)

    def read_theirs(
        self, *, columns: Sequence[str] | None = None, where: str | None = None
    ) -> pa.Table:
        """The rows of the newest version."""
        return self._at(self._head).to_arrow(columns=columns, where=where)

    def read_ours(
        self, *, columns: Sequence[str] | None = None, where: str | None = None
    ) -> pa.Table:
        """The rows as the transaction left them, on top of what it started from."""
        definition = self._member.change.definition
        check_columns(columns, definition, self.table)
        scope = None if where is None else parse(where, definition.schema)
        return self._member.read(columns, scope)

    def _at(self, head: Head) -> TableSnapshot:
        member = self._member
        return TableSnapshot(
            member.context, head, head.version, head.timestamp_ms, member.change.definition
        )


def collision(error: Conflict, transaction_id: str, member: Member, head: Head) -> Collision:
    """What a conflict is about."""
    change = member.change
    low, high = change.head.version + 1, head.version
    with member.context.database.read() as session:
        found = commits.history(session, head.table_id, low=low, high=high, limit=high - low + 1)
    operation = summary(change)
    return Collision(
        transaction_id=transaction_id,
        table=str(head.name),
        base_version=change.head.version,
        version=head.version,
        kind=str(error.kind),
        reason=error.reason,
        commits=tuple(version_of(c) for c in reversed(found)),
        operation=operation.name,
        parameters=MappingProxyType(dict(operation.parameters)),
        _member=member,
        _head=head,
    )
