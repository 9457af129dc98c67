"""Resolving a conflict in the table where it arose, or running the transaction's function again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa
import tenacity

from lakeward.context import LakeContext
from lakeward.engines.arrow import keys
from lakeward.engines.arrow.keys import difference, picked
from lakeward.errors import Conflict, InvalidInput
from lakeward.formats.policy import settings
from lakeward.log import files, heads
from lakeward.model.commit import Head, Isolation
from lakeward.model.expressions.nodes import Expression
from lakeward.model.file import LoggedFile
from lakeward.model.keys import between
from lakeward.model.names import TableName
from lakeward.model.types import Field
from lakeward.model.values import Value, to_neutral
from lakeward.read.plan import file_may_match, plan, to_prune_by
from lakeward.read.scan import read_files
from lakeward.write.commit.conflict import Kind, check
from lakeward.write.commit.publications import follow
from lakeward.write.plan.change import Added, RowsChanged
from lakeward.write.plan.retry import Retry
from lakeward.write.rows.find import changed_rows, rows_without
from lakeward.write.transaction.member import Member
from lakeward.write.transaction.moved import carry_over, give_way
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

_RESOLVABLE: Final = frozenset({Kind.ADDED, Kind.REMOVED, Kind.MOVED})
"""Conflicts over rows. A new definition, or a file that is there already, asks for a new start."""


def resolve(error: Conflict, view: View, strategies: Strategies) -> bool:
    """Make the table's change fit the newest version; False when the conflict is to be raised.

    A function of the user that answers `fail` or `retry` leaves its answer on the error.
    """
    if error.facts.get("kind") not in _RESOLVABLE:
        return False
    name = TableName.parse(error.table)
    member = view.members[name]
    if member.change.moves:
        return give_way(member)
    strategy = strategies.for_table(name)
    if error.facts["kind"] == Kind.MOVED and member.touched is None:
        return carry_over(member, error.facts["other_version"])
    if member.change.new_definition is not None:
        return False
    if view.catch_up(name):
        return True
    if isinstance(strategy, str):
        return False
    head = _newest(member)
    if head is None:
        return False
    if isinstance(strategy, LastWriterWins):
        if not member.change.is_replayable:
            return False
        _last_writer_wins(member, head)
        return True
    found = strategy(collision(error, view.transaction_id, member, head))
    return _apply(check_answer(found, member.change.definition), error, member, head)


def carry_over_moves(members: Iterable[Member], isolation: Isolation) -> bool:
    """Carry changes over compactions that moved their rows; return whether there was one.

    Keys are checked against the newest versions, where a moved old row would look like a duplicate.
    """
    for member in members:
        change, context = member.change, member.context
        try:
            with context.database.read() as session:
                head = None if change.is_new else heads.by_id(session, change.head.table_id)
                if head is not None:
                    check(session, change, head, isolation)
        except Conflict as error:
            is_moved = error.facts.get("kind") == Kind.MOVED
            if is_moved and carry_over(member, error.facts["other_version"]):
                return True
    return False


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
        properties = {} if head is None else settings(head, context.definition(session, head))
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


def _last_writer_wins(member: Member, head: Head) -> None:
    """Make the change again on a newer version, deciding over the keys that it touched.

    It is made on those files of the base version that are still there; then the touched keys, of
    rows added and removed, are taken out of the files that others added since. So a touched key
    ends as the transaction left it, and every other key as others left it. Rows that others only
    copied into new files are not theirs: where the transaction left them, they stay.
    """
    member.check_replayable(head)
    if member.touched is None:
        member.touched = _touched(member)
        member.known = member.change.head.version
    member.replan(head)
    _take_out(member, member.touched, member.known)


def _touched(member: Member) -> pa.Table:
    change = member.change
    names = [f.name for f in member.key]
    removed = list(change.removed.values())
    found = []
    for step in change.steps:
        match step:
            case Added(files):
                staged = [LoggedFile(f, change.head.version + 1, n) for n, f in enumerate(files)]
                found.append(_read(member, staged, names))
            case RowsChanged(plan):
                columns = dict.fromkeys([*names, *plan.needed])
                rows = _read(member, removed, list(columns), plan.scopes[0])
                found.append(picked(rows, changed_rows(plan, rows)))
    return keys.distinct(found, names)


def _read(
    member: Member,
    files: Sequence[LoggedFile],
    columns: Sequence[str] | None = None,
    where: Expression | None = None,
) -> pa.Table:
    change = member.change
    return read_files(
        member.context.storage, change.head, change.definition, files, columns=columns, where=where
    ).read_all()


def _take_out(member: Member, touched: pa.Table, known: int) -> None:
    if not touched.num_rows:
        return
    change = member.change
    spans = keys.span(touched)
    where = between({f: _neutral(f, *spans[f.name]) for f in member.key})
    table_id, version = change.head.table_id, change.head.version
    with member.context.database.read() as session:
        condition = to_prune_by(where, change.definition)
        found = list(plan(session, table_id, version, condition, after=known))
        replaced = files.removed_since(session, table_id, known, version) if found else []
    replaced = [f for f in replaced if condition is None or file_may_match(condition, f.file)]
    left = _left(member, replaced, touched)
    for file in sorted(found, key=lambda f: (f.added, f.ordinal)):
        rows = _read(member, [file])
        same_key, kept = keys.split(rows, touched)
        if left is not None and same_key.num_rows:
            left, theirs = difference(left, same_key)
            kept = pa.concat_tables([kept, difference(same_key, theirs)[0]])
        if kept.num_rows < rows.num_rows:
            change.added.extend(member.stager.stage([kept], trusted=True))
            change.remove(file)


def _left(member: Member, replaced: Sequence[LoggedFile], touched: pa.Table) -> pa.Table | None:
    """The rows with touched keys in files that others replaced which the transaction left there."""
    change = member.change
    if not replaced:
        return None
    rows, _ = keys.split(_read(member, replaced), touched)
    for step in change.steps:
        if isinstance(step, RowsChanged):
            rows = rows_without(rows, changed_rows(step.plan, rows))
    return rows


def _neutral(field: Field, low: object, high: object) -> tuple[Value, Value]:
    return to_neutral(field.type, low), to_neutral(field.type, high)
