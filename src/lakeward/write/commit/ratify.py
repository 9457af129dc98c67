"""Ratification: the one database transaction that makes a commit true.

It closes the registered transaction, locks the heads of all members in sorted order, checks what
was committed since their base versions, and inserts every member's commit. Either all of it is in
the log or nothing is. Timestamps of a table only grow, whatever the clocks do, and all members of
one transaction share theirs, so that a cut by time never splits a transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TypeAlias

from lakeward.context import LakeContext
from lakeward.errors import TransactionClosed
from lakeward.formats.delta.publication import commit_bytes, commit_path
from lakeward.log import heads, locks, transactions
from lakeward.log.database import Session
from lakeward.model.clock import now_ms
from lakeward.model.commit import Commit, CommitInfo, Head, Isolation, TransactionState
from lakeward.model.names import TableName
from lakeward.model.steps import reach
from lakeward.storage.base import Prepared
from lakeward.storage.syncing import sync_in_turn, sync_together
from lakeward.storage.underway import Underway
from lakeward.write.commit import conflict, drift, iceberg
from lakeward.write.commit.lock_checks import check_locks, needs
from lakeward.write.commit.new_table import enter, make_empty
from lakeward.write.commit.record import Ratified, insert
from lakeward.write.plan.change import Change, metrics, summary
from lakeward.write.stage.stager import Stager

OnRatify: TypeAlias = Callable[[Session], None]


@dataclass(frozen=True, slots=True)
class Intent:
    """A transaction ready to be ratified.

    Attributes:
        transaction_id: By which it is known.
        isolation: What it may have missed.
        message: Why.
        attempts: How often it was tried.
        changes: Of each table that it changes.
        looked_at: Of each table that it only read, where what it read must still hold.
        absent: Tables that must still not be there.
        holds_locks: Whether the store may know of locks of its own.
        along: What is recorded with it, in the same database transaction. It may raise, and then
            nothing is committed.
        stagers: Whose files must be safe by then.
    """

    transaction_id: str
    isolation: Isolation
    message: str | None
    attempts: int
    changes: Sequence[Change]
    looked_at: Sequence[Change] = ()
    absent: Collection[TableName] = ()
    holds_locks: bool = False
    on_ratify: Sequence[OnRatify] = ()
    stagers: Sequence[Stager] = ()

    def settle(self, prepared: Iterable[Prepared] = ()) -> None:
        """Make all files that were staged safe, and with them some that wait for their names."""
        staged = self._staged()
        if staged:
            sync_together([*staged, *prepared])

    def settle_early(self, context: LakeContext) -> None:
        """Make them safe, unless nobody is kept waiting when that is done with the store held."""
        if context.database.is_busy:
            sync_in_turn(self._staged())
        elif context.database.is_remote or not all(s.settles_soon for s in self.stagers):
            self.settle()

    def _staged(self) -> list[Underway]:
        return [file for stager in self.stagers for file in stager.take_underway()]


def ratify(context: LakeContext, intent: Intent) -> list[Ratified]:
    """Make the transaction true.

    Raises:
        Conflict: Others changed what it touched. Nothing was committed; it stays open.
        Locked: Another transaction holds a table that it changes. Nothing was committed.
        TransactionClosed: It was closed before: `state` says how.
        OutcomeUnknown: The store did not answer; ask by id.
    """
    members: list[Ratified] = []
    intent.settle_early(context)
    with _Discarding(members), context.database.write() as session:
        close(session, intent.transaction_id)
        new = [c for c in intent.changes if c.is_new]
        if new:
            context.database.lock_schema(session)
        touched = sorted((*intent.changes, *intent.looked_at), key=lambda c: c.head.table_id)
        touched = [c for c in touched if not c.is_new]
        current = [
            drift.settled(context, session, heads.lock(session, c.head.table_id, c.head.name))
            for c in touched
        ]
        reach("ratify.locked")
        check_and_release_locks(context, session, intent)
        for change, head in zip(touched, current, strict=True):
            conflict.check(session, change, head, intent.isolation)
        conflict.check_absent(session, intent.absent)
        reach("ratify.checked")
        timestamp = timestamp_after(current)
        for change, head in zip(touched, current, strict=True):
            if change.is_empty:
                continue
            member = member_of(context, intent, change, head, timestamp)
            if head.format == iceberg.FORMAT:
                member = iceberg.extend(context, session, member, change.aside)
            insert(session, member, head)
            members.append(member if head.format == iceberg.FORMAT else _prepared(context, member))
        members.extend(_first(context, session, intent, c, timestamp) for c in new)
        for record in intent.on_ratify:
            record(session)
        intent.settle([m.prepared for m in members if m.prepared is not None])
        reach("ratify.inserted")
    reach("ratify.committed")
    return members


def _first(
    context: LakeContext, session: Session, intent: Intent, change: Change, timestamp: int
) -> Ratified:
    """A table that the transaction makes, with its first rows."""
    head = enter(context, session, change.head, timestamp)
    if head.format != iceberg.FORMAT:
        member = member_of(context, intent, change, head, timestamp)
        insert(session, member, head)
        return _prepared(context, member)
    if not change.added:
        member = member_of(context, intent, change, head, timestamp)
        entered = iceberg.begin(context, session, head, member.definition, member.commit)
        member = replace(member, head=replace(member.head, pointer=entered.pointer))
        insert(session, member, entered)
        heads.set_published(session, head.table_id, 0)
        return member
    definition = change.new_definition or change.definition
    empty = make_empty(context, session, head, definition, timestamp - 1)
    rows = replace(change, definition=definition, new_definition=None)
    member = member_of(context, intent, rows, empty, timestamp)
    member = iceberg.extend(context, session, member, change.aside)
    insert(session, member, empty)
    return member


class _Discarding:
    """Lets go of the files prepared for members that were not ratified after all."""

    def __init__(self, members: Sequence[Ratified]) -> None:
        self._members = members

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for member in self._members if kind is not None else ():
            if member.prepared is not None:
                member.prepared.discard()


def _prepared(context: LakeContext, member: Ratified) -> Ratified:
    """The member with its published file begun: written, but nowhere to be seen."""
    path = commit_path(member.head.location, member.commit.version)
    data = commit_bytes(member.head, member.commit, member.definition)
    prepared = context.storage.prepare(path, data)
    return Ratified(member.head, member.commit, member.definition, prepared)


def check_and_release_locks(context: LakeContext, session: Session, intent: Intent) -> None:
    """Pass unless another transaction holds a table that this one changes; its own locks end here.

    Raises:
        Locked: One does.
    """
    check_locks(context, session, needs(intent.changes), by=intent.transaction_id)
    if intent.holds_locks:
        locks.release(session, intent.transaction_id)


def timestamp_after(current: Sequence[Head]) -> int:
    """Now, or later than every head where the clock is behind."""
    return max([now_ms(), *(h.timestamp_ms + 1 for h in current)])


def close(session: Session, transaction_id: str) -> None:
    """Close the registered transaction as ratified: the door that each goes through once.

    Raises:
        TransactionClosed: It was closed before, or never opened.
    """
    if transactions.end(session, transaction_id, TransactionState.RATIFIED, now_ms()):
        return
    state = transactions.lock(session, transaction_id)
    how = "never opened" if state is None else state.value.replace("_", " ")
    what = f"Transaction {transaction_id} is {how}."
    hint = "Its lease ran out; run it again." if state is TransactionState.EXPIRED else None
    raise TransactionClosed(what, hint=hint, transaction_id=transaction_id, state=state)


def member_of(
    context: LakeContext, intent: Intent, change: Change, head: Head, timestamp: int
) -> Ratified:
    """What a change becomes on top of a locked head."""
    operation = summary(change)
    version = head.version + 1
    definition = change.new_definition or change.definition
    commit = Commit(
        version=version,
        timestamp_ms=timestamp,
        info=CommitInfo(
            transaction_id=intent.transaction_id,
            operation=operation.name,
            parameters=operation.parameters,
            metrics=metrics(change),
            actor=context.actor,
            engine=context.engine,
            message=intent.message,
            members=len(intent.changes),
            attempts=intent.attempts,
            blind=change.is_blind,
            data_change=change.data_change,
        ),
        added=tuple(change.added),
        removed=tuple(change.removed[k] for k in sorted(change.removed)),
        definition=change.new_definition,
        app_transactions=tuple(sorted(change.app_transactions, key=lambda a: a.app_id)),
        change_files=tuple(change.change_files),
    )
    definition_id = head.definition_id + (change.new_definition is not None)
    return Ratified(head.advanced(version, timestamp, definition_id), commit, definition)
