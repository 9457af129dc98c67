"""A transaction's state, from its begin to the commit and publication, or to the rollback."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from lakeward.context import LakeContext
from lakeward.errors import (
    Conflict,
    ConstraintViolation,
    LakewardError,
    Locked,
    OutcomeUnknown,
    TransactionClosed,
)
from lakeward.formats.background import BackgroundWorker
from lakeward.formats.base import Ratified
from lakeward.log import heads, violations
from lakeward.log.database import Session
from lakeward.log.violations import Violation
from lakeward.model import arguments
from lakeward.model.commit import AppTransaction, Isolation, TransactionState
from lakeward.model.locks import PATIENCE_SECONDS, LockMode
from lakeward.model.names import TableName
from lakeward.model.steps import reach
from lakeward.write.commit.open_table import check_alone, ratify_open
from lakeward.write.commit.outcome import happened, ratify_surely, recorded
from lakeward.write.commit.progress import add_to
from lakeward.write.commit.publications import take_over
from lakeward.write.commit.ratify import Intent, OnRatify, ratify
from lakeward.write.keys.guards import Moved, overtaken
from lakeward.write.keys.reactions import NOTHING, Checked, check_keys
from lakeward.write.plan.change import Change
from lakeward.write.stage.stager import stored_paths
from lakeward.write.transaction import announcing
from lakeward.write.transaction.executor import EmbeddedExecutor, Executor
from lakeward.write.transaction.flows import Flows
from lakeward.write.transaction.hooks import Hooks, staged_commit
from lakeward.write.transaction.locking import TableLocks, lock_patience
from lakeward.write.transaction.member import Member
from lakeward.write.transaction.operating import Operating
from lakeward.write.transaction.publishing import publish
from lakeward.write.transaction.quarantine import quarantine, warnings
from lakeward.write.transaction.registration import (
    LeaseKeeper,
    Registered,
    checked_id,
    checked_isolation,
)
from lakeward.write.transaction.resolve import carry_over_moves, resolve
from lakeward.write.transaction.result import CommitResult as CommitResult
from lakeward.write.transaction.strategy import LastWriterWins, OnConflict, Strategies
from lakeward.write.transaction.view import View
from lakeward.write.transaction.violations import record_failure

_RESOLVED: Final = 100
"""How often a transaction resolves conflicts, or checks keys again, until it raises `Conflict`."""


class Lifecycle:
    """The state of one transaction: open, then ratified or rolled back."""

    def __init__(
        self,
        context: LakeContext,
        keeper: LeaseKeeper,
        background: BackgroundWorker,
        *,
        isolation: str = "snapshot",
        message: str | None = None,
        transaction_id: str | None = None,
        attempts: int = 1,
        on_conflict: OnConflict | None = None,
        reruns: bool = False,
        hooks: Hooks | None = None,
        lock_timeout: float = PATIENCE_SECONDS,
        executor: type[Executor] = EmbeddedExecutor,
        **options: Any,
    ) -> None:
        own = self.transaction_id = checked_id(transaction_id)
        level = self.isolation = checked_isolation(isolation, executor.engine)
        self.message = arguments.optional_text(message, "message")
        self.context = context
        self.attempts = attempts
        self.lock_timeout = arguments.number(lock_timeout, "lock_timeout")
        self.registered = Registered(context, keeper, own, isolation=level, message=self.message)
        self.view = View(context, own, level, self.registered)
        self.strategies = Strategies.of(on_conflict, level, reruns=reruns, engine=executor.engine)
        self.locks: TableLocks | None = None
        self.abandoned = threading.Event()
        self.on_ratify: list[OnRatify] = []
        self.progress: list[AppTransaction] = []
        self.flows = Flows()
        self.state = TransactionState.OPEN
        self.result: CommitResult | None = None
        self.failure: BaseException | None = None
        self._recorded: list[Violation] = []
        self._is_doubtful = False
        self._background = background
        self._hooks = hooks
        self._has_chosen_id = transaction_id is not None
        self.tracer = context.events.tracer
        if self.tracer is not None:
            self.tracer.begin(own, str(level))
        self.executor = executor(self.view, **options)

    @property
    def is_open(self) -> bool:
        """Whether the transaction can still be changed."""
        return self.state is TransactionState.OPEN and self.result is None

    def check_open(self) -> None:
        """Raise `TransactionClosed` if the transaction was committed or rolled back."""
        if self.state is TransactionState.OPEN and self.result is None:
            return
        done = "rolled back" if self.result is None else "committed"
        what = f"This transaction was {done} before, and takes no more changes."
        hint, own_id = "Begin another one with lake.transaction().", self.transaction_id
        raise TransactionClosed(what, hint=hint, transaction_id=own_id, state=self.state)

    def is_replay(self) -> bool:
        """Return whether a transaction of this id, which the user chose, was ratified before.

        Every operation that changes something calls this first; in a read-only lake it raises.
        """
        self.context.database.check_writable()
        if not self._has_chosen_id or self.registered.is_registered:
            return False
        if self.result is None:
            if not happened(self.context, self.transaction_id):
                return False
            with self.context.database.read() as session:
                done = recorded(session, self.transaction_id)
            self.state = TransactionState.RATIFIED
            self.result = self._publish(done)
        return True

    def operation(self, table: TableName, *, reads: bool = False) -> Operating[Member]:
        """Return a context manager for one operation on a table; an error in it rolls back."""
        self.check_open()
        strategy = self.strategies.for_table(table)
        keyed = isinstance(strategy, LastWriterWins)
        # What others do to a key counts from the cut on, so that must be taken before rows are.
        member = self.view.member(table, reads=reads or keyed)
        if isinstance(strategy, LastWriterWins) and not member.key:
            schema = member.change.definition.schema
            strategy.check(schema, str(table))
            member.key = tuple(schema.by_name[column] for column in strategy.key)
        return Operating(self, member)

    def running(self) -> Operating[None]:
        """Return a context manager as `operation` does, for a SQL statement over any tables."""
        self.check_open()
        return Operating(self, None)

    def take_lock(self, table: TableName, mode: LockMode, timeout: float | None) -> None:
        """Lock a table until the transaction ends; see `Transaction.lock`."""
        self.check_open()
        try:
            patience = lock_patience(self.context, table) if timeout is None else timeout
            head = self._table_locks().take(table, mode, patience)
            if head is not None:
                self.view.locked(head)
        except Locked:
            raise
        except BaseException as error:
            self.rollback()
            self.failure = error
            raise

    def commit(self) -> CommitResult:
        """Ratify and publish; see `Transaction.commit`."""
        if self.result is not None:
            return self.result
        self.check_open()
        begun = time.perf_counter()
        try:
            self.executor.prepare()
            if self.tracer is not None:
                self.tracer.step(self.transaction_id, "prepare", time.perf_counter() - begun)
            ratified = self._ratify()
        except OutcomeUnknown:
            # It stays open: `commit` may be called again, and finds out by the id.
            self._is_doubtful = True
            raise
        except BaseException as error:
            self.rollback()
            self.failed(error)
            raise
        if not ratified and not self.on_ratify and not self.view.dropped:
            self.rollback()
            self.result = CommitResult(self.transaction_id, {}, attempts=self.attempts)
            return self.result
        announcing.ratified(self.context, ratified, time.perf_counter() - begun)
        announcing.violated(self.context, self._recorded)
        self.state = TransactionState.RATIFIED
        self.registered.let_go()
        self._discard_unused(ratified)
        self.result = self._publish(ratified)
        self._end(committed=True)
        announcing.committed(self.context, self.result, ratified, time.perf_counter() - begun)
        reach("commit.acknowledged")
        return self.result

    def rollback(self) -> None:
        """Delete the staged files and close the transaction; do nothing if it ended before."""
        self.failure = None
        if self.state is not TransactionState.OPEN:
            return
        self.state = TransactionState.ROLLED_BACK
        if not self.registered.roll_back(self._before_rolled_back, self._release_locks):
            # Ratified after all, or nobody knows: then every file stays.
            self._end(committed=None)
            return
        for member in self._ever_members():
            with suppress(LakewardError):
                member.stager.discard()
                self.context.storage.delete(member.change.metadata_files)
        self._end(committed=False)

    def failed(self, error: BaseException) -> None:
        """Record violations that the error has, and announce that it ended the transaction."""
        announcing.violated(self.context, record_failure(self.context, self.transaction_id, error))
        announcing.failed(self.context, self.transaction_id, self.view.members, error)

    def _end(self, *, committed: bool | None) -> None:
        for member in self._ever_members():
            # They hold the data of merges, and nothing is done again from here on.
            member.change.steps.clear()
        self.executor.end(committed=committed)
        if self.tracer is not None and not committed:
            error = sys.exception()
            kind = None if error is None else type(error).__name__
            self.tracer.end(self.transaction_id, str(self.state), kind)

    def _before_rolled_back(self, session: Session) -> None:
        """Adopt commits to open tables, since a published file proves the commit."""
        for member in self.view.members.values():
            head = member.change.head
            if not head.guarded and heads.by_id(session, head.table_id) is not None:
                locked = heads.lock(session, head.table_id, head.name)
                take_over(self.context, session, locked)

    def _release_locks(self, session: Session) -> None:
        if self.locks is not None:
            self.locks.release(session)

    def _ratify(self) -> list[Ratified]:
        """Ratify, and resolve conflicts if possible; return nothing if no change is left."""
        last, checks = self.attempts + _RESOLVED, 0
        if self._is_doubtful and happened(self.context, self.transaction_id):
            # Its own rows must not be taken for those of others.
            with self.context.database.read() as session:
                return recorded(session, self.transaction_id)
        while True:
            members = {n: m for n, m in self.view.members.items() if not m.change.is_empty}
            is_empty = not members and not (self.view.has_restored and self.view.unchanged())
            if is_empty and not self.on_ratify and not self.view.dropped:
                return []
            for member in members.values():
                member.finish()
            reach("stage.done")
            self.registered.ensure()
            checked = self._check_keys(list(members.values()))
            if checked is None:
                continue
            if checked.quarantined:
                quarantine(self.view, checked.quarantined)
                continue
            if self._hooks is not None and self._hooks.functions:
                self._hooks.run(staged_commit(self, self.context.actor, members))
            reach("validate.done")
            try:
                return self._ratify_once(members, checked)
            except Moved as error:
                checks += 1
                if checks > _RESOLVED:
                    raise overtaken(error) from error
            except Conflict as error:
                more = self.attempts < last and resolve(error, self.view, self.strategies)
                announcing.conflicted(
                    self.context, self.transaction_id, error, self.attempts, resolved=more
                )
                if not more:
                    raise
                self.attempts += 1

    def _at_ratification(
        self, members: Mapping[TableName, Member], checked: Checked
    ) -> list[OnRatify]:
        """Return the functions to call in the session that ratifies.

        They are the user's functions, and those that record lineage and violations.
        """
        found = self._recorded = [v for m in self.view.moved.values() for v in m.violations]
        if checked.warned:
            found = self._recorded = [*found, *warnings(self.view, checked.warned)]
        flows = self.flows.recording(self.transaction_id, members, self.view.members)
        if not found:
            return [*self.on_ratify, *flows]
        return [*self.on_ratify, *flows, lambda session: violations.insert(session, found)]

    def _check_keys(self, members: Sequence[Member]) -> Checked | None:
        """Check keys; None if changes were rebased on a compaction: the caller must check again."""
        changes = [m.change for m in members]
        if not any(change.may_violate_keys for change in changes):
            return NOTHING
        try:
            dropped = [m.change.head for m in self.view.dropped.values()]
            checked = check_keys(self.context, changes, dropped)
        except ConstraintViolation:
            if carry_over_moves(members, self.isolation):
                return None
            raise
        is_offended = checked.quarantined or checked.warned
        return None if is_offended and carry_over_moves(members, self.isolation) else checked

    def _discard_unused(self, ratified: Sequence[Ratified]) -> None:
        """Delete staged files that are in no commit: replaced later, or by a replay of the id."""
        used = {
            f"{m.head.location}/{path}"
            for m in ratified
            for f in (*m.commit.added, *m.commit.change_files)
            for path in stored_paths(f)
        }
        for member in self._ever_members():
            with suppress(LakewardError):
                member.stager.discard(keep=used)

    def _ever_members(self) -> list[Member]:
        """Return all tables including dropped ones, whose staged files are deleted as well."""
        return [*self.view.members.values(), *self.view.dropped.values()]

    def _publish(self, ratified: Sequence[Ratified]) -> CommitResult:
        """Publish the commits; if that fails, they are published when the lake is next opened."""
        return publish(
            self.context, self._background, self.transaction_id, ratified, attempts=self.attempts
        )

    def _ratify_once(self, members: Mapping[TableName, Member], checked: Checked) -> list[Ratified]:
        looked, dropped = self._looked_at(members), self.view.dropped
        changes = [m.change for m in members.values()]
        unguarded = [c for c in changes if not c.head.guarded]
        if unguarded or looked:
            check_alone([*changes, *looked], [m.change for m in dropped.values()])
        for change in unguarded:
            add_to(change, self.progress)
        way = ratify_open if unguarded else ratify
        deadline = time.monotonic() + self.lock_timeout
        while True:
            intent = Intent(
                self.transaction_id,
                self.isolation,
                self.message,
                self.attempts,
                changes,
                looked,
                # Only a serializable transaction depends on what was not there.
                self.view.missed if self.isolation is Isolation.SERIALIZABLE else (),
                self.locks is not None,
                self._at_ratification(members, checked),
                [m.stager for m in members.values()],
                checked.guards,
                [m.change.head for m in dropped.values()] if dropped else (),
                self.view.properties,
                self.registered.opened_ms,
            )
            try:
                return ratify_surely(self.context, intent, way)
            except Locked as error:
                # A place in the queue, however busy the table is.
                left = max(0.0, deadline - time.monotonic())
                name, mode = TableName.parse(error.table), LockMode.of(error.mode)
                self._table_locks().queue(name, mode, left)

    def _table_locks(self) -> TableLocks:
        """Return the transaction's locks; create the object with the first lock."""
        if self.locks is None:
            own = self.transaction_id
            self.locks = TableLocks(self.context, own, self.registered.ensure, self.abandoned)
        return self.locks

    def _looked_at(self, members: Mapping[TableName, Member]) -> Sequence[Change]:
        """Return what must still hold of tables that are not changed.

        That is restores to the present state, and the reads of serializable transactions.
        """
        held = self.view.unchanged() if self.view.has_restored else []
        if self.isolation is not Isolation.SERIALIZABLE:
            return held
        only_read = [m for n, m in self.view.members.items() if n not in members]
        found = [m.change for m in (*only_read, *self.view.dropped.values()) if m.change.reads]
        # Of a dropped table the reads count, and its other changes do not.
        reads = (Change(c.head, c.definition, reads=c.reads) for c in found if c not in held)
        return [*held, *reads]
