"""Ratification: the one database transaction that makes a commit true.

It closes the registered transaction, locks the heads of all members in sorted order, checks what
was committed since their base versions, and inserts every member's commit. Either all of it is in
the log or nothing is. Timestamps of a table only grow, whatever the clocks do, and all members of
one transaction share theirs, so that a cut by time never splits a transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeAlias

from lakeward.context import LakeContext
from lakeward.errors import TransactionClosed
from lakeward.formats.base import Ratified
from lakeward.log import heads, locks, onces, positions, transactions
from lakeward.log.database import Session
from lakeward.model.clock import now_ms
from lakeward.model.commit import CommitInfo, Head, Isolation, TransactionState
from lakeward.model.definition import Definition
from lakeward.model.locks import LockMode
from lakeward.model.names import TableName
from lakeward.model.steps import reach
from lakeward.storage.base import Prepared, Underway
from lakeward.storage.syncing import sync_in_turn, sync_together
from lakeward.write.commit import conflict, publications
from lakeward.write.commit.claimed import check_and_release_claims
from lakeward.write.commit.conflict import check_locks, needs
from lakeward.write.commit.dropping import drop_tables
from lakeward.write.commit.new_table import begin_table
from lakeward.write.commit.policy_change import check_policy
from lakeward.write.commit.record import Draft, discarding, record
from lakeward.write.keys.guards import Guard, Moved
from lakeward.write.plan.change import Change, metrics, summary
from lakeward.write.stage.stager import Stager

OnRatify: TypeAlias = Callable[[Session], None]


@dataclass(frozen=True, slots=True)
class Intent:
    """A transaction ready to be ratified.

    Attributes:
        message: The reason that the user gave.
        attempts: How often the transaction was tried.
        changes: The change of each table that it changes.
        looked_at: The reads of each table that it only read, if they must still be valid.
        absent: Tables that must still not exist.
        holds_locks: Whether the transaction may hold locks in the store.
        on_ratify: Called in the same database transaction. If one raises, nothing is committed.
        stagers: The writers of its staged files, which are fsynced before the log commits.
        guards: Conditions on tables with keys that must still hold.
        dropped: Tables to drop, as the transaction saw them.
        properties: Properties that the user gave, stored with each commit.
        opened_ms: When the transaction was registered or opened again; None if the session that
            ratifies it also registers it.
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
    guards: Sequence[Guard] = ()
    dropped: Sequence[Head] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    opened_ms: int | None = None

    def sync(self, prepared: Iterable[Prepared] = ()) -> None:
        """Fsync all staged files, together with prepared files, which have no name yet."""
        staged = self._staged()
        if staged:
            sync_together([*staged, *prepared])

    def sync_early(self, context: LakeContext) -> None:
        """Fsync staged files before taking the store's lock, if others wait or files are large."""
        if context.database.is_busy:
            sync_in_turn(self._staged())
        elif context.database.is_remote or not all(s.syncs_soon for s in self.stagers):
            self.sync()

    def _staged(self) -> list[Underway]:
        return [file for stager in self.stagers for file in stager.take_underway()]


def ratify(context: LakeContext, intent: Intent) -> list[Ratified]:
    """Commit the transaction to the log.

    Raises:
        Conflict: Others changed what it read or changed. Nothing was committed; it stays open.
        Locked: Another transaction holds a table that it changes. Nothing was committed.
        TransactionClosed: The transaction is not open; the error's `state` says why.
        OutcomeUnknown: The store did not respond; look up the outcome by id.
        Moved: A key must be checked again. Nothing was committed; it stays open.
    """
    intent.sync_early(context)
    with discarding() as members, context.database.write() as session:
        close(session, intent.transaction_id, intent.opened_ms)
        new = [c for c in intent.changes if c.is_new]
        if new:
            context.database.lock_schema(session)
        touched = sorted((*intent.changes, *intent.looked_at), key=lambda c: c.head.table_id)
        touched = [c for c in touched if not c.is_new]
        locked = lock_heads(context, session, intent, touched)
        current = [locked[c.head.table_id] for c in touched]
        reach("ratify.locked")
        check_and_release_locks(context, session, intent)
        for change, head in zip(touched, current, strict=True):
            conflict.check(session, change, head, intent.isolation)
            if change.claims:
                check_and_release_claims(context, session, intent.transaction_id, change, head)
        conflict.check_absent(session, intent.absent)
        check_guards(session, intent.guards, locked)
        reach("ratify.checked")
        gone = [locked[h.table_id] for h in intent.dropped]
        timestamp = timestamp_after([*current, *gone])
        position = positions.take(session) if intent.changes or gone else positions.NOWHERE
        if gone:
            drop_tables(context, session, gone, timestamp, position, intent.transaction_id)
        for change, head in zip(touched, current, strict=True):
            if change.is_empty:
                continue
            definition = definition_after(context, session, change, head)
            draft = draft_of(context, intent, change, timestamp, definition, position)
            member = record(context, session, head, draft, change.metadata_files)
            members.append(member)
        for change in new:
            check_policy(session, change, change.head)
            draft = draft_of(context, intent, change, timestamp, change.definition, position)
            members.append(begin_table(context, session, change.head, draft, change.metadata_files))
        for on_ratify in intent.on_ratify:
            on_ratify(session)
        if not intent.changes:
            onces.insert(session, intent.transaction_id, onces.NO_VERSION, context.actor, timestamp)
        intent.sync([m.prepared for m in members if m.prepared is not None])
        reach("ratify.inserted")
    reach("ratify.committed")
    return members


def lock_heads(
    context: LakeContext, session: Session, intent: Intent, touched: Sequence[Change]
) -> dict[int, Head]:
    """Lock the heads of tables that a transaction touches or whose keys it uses, in order of id.

    Foreign commits that follow them are recorded. Returns the newest heads by table id.
    """
    wanted = [c.head for c in touched]
    if intent.guards or intent.dropped:
        others = (*(g.head for g in intent.guards), *intent.dropped)
        found = {h.table_id: h for h in (*others, *wanted)}
        wanted = [found[table_id] for table_id in sorted(found)]
    return {
        head.table_id: publications.take_over_or_refuse(
            context, session, heads.lock(session, head.table_id, head.name)
        )
        for head in wanted
    }


def check_guards(session: Session, guards: Iterable[Guard], locked: Mapping[int, Head]) -> None:
    """Raise `Moved` if commits since the keys were checked may violate a key."""
    for guard in guards:
        if not guard.holds(session, locked[guard.head.table_id]):
            what = f"The keys of {guard.head.name} must be checked again."
            raise Moved(what, table=str(guard.head.name))


def check_and_release_locks(context: LakeContext, session: Session, intent: Intent) -> None:
    """Raise `Locked` if others hold a changed table; release the transaction's own locks."""
    wanted = chain(needs(intent.changes), ((h, LockMode.WRITE) for h in intent.dropped))
    check_locks(context, session, wanted, by=intent.transaction_id)
    if intent.holds_locks:
        locks.release(session, intent.transaction_id)


def timestamp_after(current: Sequence[Head]) -> int:
    """Return the current time, or the newest head's plus 1 ms if the clock is behind."""
    return max([now_ms(), *[h.timestamp_ms + 1 for h in current]])


def close(session: Session, transaction_id: str, opened_ms: int | None) -> None:
    """Close the registered transaction as ratified.

    Raises `TransactionClosed` if it is not open, or was opened again after `opened_ms`.
    """
    if transactions.end(session, transaction_id, TransactionState.RATIFIED, now_ms(), opened_ms):
        return
    state = transactions.lock(session, transaction_id)
    if state is TransactionState.OPEN:
        # Opened again by another process, which is possible only after it expired or ended here.
        state = TransactionState.EXPIRED
    how = "never opened" if state is None else state.value.replace("_", " ")
    what = f"Transaction {transaction_id} is {how}."
    hint = "Its lease ran out; run it again." if state is TransactionState.EXPIRED else None
    raise TransactionClosed(what, hint=hint, transaction_id=transaction_id, state=state)


def definition_after(
    context: LakeContext, session: Session, change: Change, head: Head
) -> Definition:
    """Return the definition after a change is made on a head, which may be newer than its base."""
    if change.new_definition is not None:
        return change.new_definition
    if head.definition_id == change.head.definition_id:
        return change.definition
    return context.definition(session, head)


def draft_of(
    context: LakeContext,
    intent: Intent,
    change: Change,
    timestamp: int,
    definition: Definition,
    position: int | None = None,
) -> Draft:
    """Return the draft of the commit for a change."""
    operation = summary(change)
    return Draft(
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
            extra=change.extra,
            properties={**intent.properties, **change.properties}
            if change.properties
            else intent.properties,
        ),
        definition=definition,
        redefines=change.new_definition is not None,
        added=tuple(change.added),
        removed=tuple(change.removed[k] for k in sorted(change.removed)),
        app_transactions=tuple(sorted(change.app_transactions, key=lambda a: a.app_id)),
        change_files=tuple(change.change_files),
        returns=change.source,
        position=position,
        domains=change.domains,
    )
