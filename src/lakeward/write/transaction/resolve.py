"""Resolving a conflict in the table where it arose, or running the transaction's function again."""

from __future__ import annotations

from typing import Final

import tenacity

from lakeward.context import LakeContext
from lakeward.errors import Conflict, InvalidInput
from lakeward.log import heads
from lakeward.model.commit import Head
from lakeward.model.names import TableName
from lakeward.write.commit.conflict import Kind
from lakeward.write.commit.drift import follow
from lakeward.write.plan.retry import Retry
from lakeward.write.transaction import last_writer
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
    collision,
)
from lakeward.write.transaction.view import View

_RESOLVABLE: Final = frozenset({Kind.ADDED, Kind.REMOVED})
"""Conflicts over rows. A new definition, or a file that is there already, asks for a new start."""


def resolve(error: Conflict, view: View, strategies: Strategies) -> bool:
    """Make the table's change fit the newest version; False when the conflict is to be raised.

    A function of the user that answers `fail` or `retry` leaves its answer on the error.
    """
    if error.facts.get("kind") not in _RESOLVABLE:
        return False
    name = TableName.parse(error.table)
    member = view.members[name]
    if view.catch_up(name):
        return True
    strategy = strategies.for_table(name)
    if isinstance(strategy, str):
        return False
    head = _newest(member)
    if head is None:
        return False
    if isinstance(strategy, LastWriterWins):
        if not member.change.is_replayable:
            return False
        last_writer.resolve(member, head)
        return True
    found = strategy(collision(error, view.transaction_id, member, head))
    return _apply(check_answer(found, member.change.definition), error, member, head)


def reruns(context: LakeContext, retry: Retry | None, strategies: Strategies) -> tenacity.Retrying:
    """Attempts for as long as conflicts end them and patience lasts."""
    if retry is not None and not isinstance(retry, Retry):
        what = f"`retry` must be a lakeward.Retry, not {type(retry).__name__}."
        raise InvalidInput(what, hint="Write retry=lw.Retry(attempts=5).")

    def policy(state: tenacity.RetryCallState) -> Retry:
        if retry is not None:
            return retry
        error = state.outcome.exception() if state.outcome is not None else None
        return _of_table(context, error)

    def wait(state: tenacity.RetryCallState) -> float:
        return policy(state).delay(state.attempt_number)

    def ends(state: tenacity.RetryCallState) -> bool:
        return state.attempt_number >= policy(state).attempts

    def again(error: BaseException) -> bool:
        return isinstance(error, Conflict) and strategies.rerun(error)

    def count(_: tenacity.RetryCallState) -> None:
        context.counters.add("reruns")

    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(again),
        stop=ends,
        wait=wait,
        before_sleep=count,
        reraise=True,
    )


def _of_table(context: LakeContext, error: BaseException | None) -> Retry:
    name = error.facts.get("table") if isinstance(error, Conflict) else None
    if name is None:
        return Retry()
    with context.database.read() as session:
        head = heads.find(session, TableName.parse(name))
        properties = {} if head is None else context.definition(session, head).properties
    try:
        return Retry.of(properties)
    except InvalidInput:
        # An adopted table may have anything there.
        return Retry()


def _newest(member: Member) -> Head | None:
    """The table's head, unless it is not the same table any more."""
    base = member.change.head
    with member.context.database.read() as session:
        head = heads.by_id(session, base.table_id)
    if head is not None:
        head = follow(member.context, head)
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
