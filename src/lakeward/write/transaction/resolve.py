"""Resolves a conflict in the table where it arose, or runs the transaction's function again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import tenacity

from lakeward.context import LakeContext
from lakeward.engines.arrow import keys
from lakeward.engines.arrow.keys import picked
from lakeward.engines.arrow.row_groups import POSITION
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
from lakeward.write.rows.row_ids import KeptIds
from lakeward.write.transaction.member import Member
from lakeward.write.transaction.moved import carry_over, give_way
from lakeward.write.transaction.quarantine import take_back
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
"""Conflicts over rows. Conflicts over a definition or an added file cannot be resolved."""


def resolve(error: Conflict, view: View, strategies: Strategies) -> bool:
    """Make the table's change fit the newest version; return False if the conflict must be raised.

    If a function of the user returns `fail` or `retry`, that is stored in the error's `answer`.
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
    answer = check_answer(found, member.change.definition)
    if isinstance(answer, Replace) or answer == THEIRS:
        take_back(view, name)
    return _apply(answer, error, member, head)


def carry_over_moves(members: Iterable[Member], isolation: Isolation) -> bool:
    """Rebase a change onto a compaction that moved its rows; return whether there was one.

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
    """Return an iterator of attempts, which ends by success, another error, or the last attempt.

    After a conflict the delay and the number of attempts are those of `retry`, or of the table.
    """
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
        # An adopted table may have any value in these properties.
        return Retry()


def _newest(member: Member) -> Head | None:
    """Return the table's newest head; None if the table is gone or its definition changed."""
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
    """Repeat the change on a newer version; for the keys that it touched, it wins.

    The change is repeated on those files of the base version that still exist; then rows with
    touched keys, of rows added and removed, are removed from the files that others added since. So
    a touched key ends as the transaction left it, and every other key as others left it. Rows that
    others only copied into new files, and that the transaction left unchanged, stay.
    """
    member.change.check_replayable(head)
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
    kept_ids = KeptIds.of_change(member.context.storage, change)
    for file in sorted(found, key=lambda f: (f.added, f.ordinal)):
        rows = read_files(
            member.context.storage, change.head, kept_ids.definition, [file], numbered=True
        ).read_all()
        positions = rows[POSITION].to_numpy()
        rows = rows.drop_columns([POSITION])
        goes = keys.among(rows, touched)
        if left is not None and goes.any():
            found_again, copies = keys.equal_rows(
                left, kept_ids.visible(rows).filter(pa.array(goes))
            )
            left = rows_without(left, found_again)
            goes[np.flatnonzero(goes)[copies]] = False
        if goes.any():
            kept = kept_ids.filled(rows, file, positions).filter(pa.array(~goes))
            change.added.extend(kept_ids.stage(member.stager, [kept], trusted=True))
            change.remove(file)
            change.overrides = True


def _left(member: Member, replaced: Sequence[LoggedFile], touched: pa.Table) -> pa.Table | None:
    """Return rows with touched keys in replaced files, without those that the change affects.

    These are files that others replaced; without any, it returns None.
    """
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
