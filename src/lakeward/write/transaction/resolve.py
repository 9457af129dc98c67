"""Resolving a conflict in the table where it arose, so that the rest of the transaction is kept."""

from __future__ import annotations

from typing import Final

from lakeward.context import LakeContext
from lakeward.errors import Conflict
from lakeward.log import heads
from lakeward.model.commit import Head
from lakeward.model.names import TableName
from lakeward.write.commit.conflict import Kind
from lakeward.write.commit.drift import follow
from lakeward.write.transaction import last_writer
from lakeward.write.transaction.collision import collision
from lakeward.write.transaction.member import Member
from lakeward.write.transaction.strategy import (
    FAIL,
    OURS,
    RETRY,
    THEIRS,
    LastWriterWins,
    Replace,
    Strategies,
    check_answer,
)
from lakeward.write.transaction.view import View

_RESOLVABLE: Final = frozenset({Kind.ADDED, Kind.REMOVED})
"""Conflicts over rows. A new definition, or a file that is there already, asks for a new start."""


class Resolver:
    """Resolves the conflicts of one transaction, as its isolation level and strategies say."""

    def __init__(
        self, context: LakeContext, transaction_id: str, view: View, strategies: Strategies
    ) -> None:
        self._context = context
        self._transaction_id = transaction_id
        self._view = view
        self.strategies = strategies

    def resolve(self, error: Conflict) -> bool:
        """Make the table's change fit the newest version; False when the conflict stands.

        A function of the user that answers `fail` or `retry` leaves its answer on the error.

        Raises:
            InvalidInput: A function of the user gave no answer.
        """
        if error.facts.get("kind") not in _RESOLVABLE:
            return False
        name = TableName.parse(error.table)
        member = self._view.members[name]
        if self._view.catch_up(name):
            return True
        strategy = self.strategies.for_table(name)
        if isinstance(strategy, str):
            return False
        head = self._newest(member)
        if head is None:
            return False
        if isinstance(strategy, LastWriterWins):
            if not member.change.is_replayable:
                return False
            last_writer.resolve(member, head)
            return True
        found = strategy(collision(error, self._transaction_id, member, head))
        return _apply(check_answer(found, member.change.definition), error, member, head)

    def _newest(self, member: Member) -> Head | None:
        """The table's head, unless it is not the same table any more."""
        base = member.change.head
        with self._context.database.read() as session:
            head = heads.by_id(session, base.table_id)
        if head is not None:
            head = follow(self._context, head)
        return head if head is not None and head.definition_id == base.definition_id else None


def _apply(answer: str | Replace, error: Conflict, member: Member, head: Head) -> bool:
    if isinstance(answer, Replace):
        member.reset(head)
        member.overwrite(answer.rows, answer.where)
        return True
    if answer == THEIRS:
        member.drop(head)
        return True
    if answer == OURS and member.change.is_replayable:
        member.replan(head)
        return True
    error.facts["answer"] = RETRY if answer == RETRY else FAIL
    return False
