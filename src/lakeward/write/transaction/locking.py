"""Acquires a transaction's locks, and waits for them.

A lock is acquired in one short session. If another lock prevents it, the request is recorded there,
and this process tries again, after growing random pauses, until it gets the lock or its timeout
ends. All waiting processes look for cycles of transactions that wait for each other. They find the
same cycle and choose the same victim, the youngest: only that transaction ends, with `Deadlock`.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import tenacity

from lakeward.context import LakeContext
from lakeward.errors import Deadlock, LakewardError, TransactionClosed
from lakeward.formats.policy import effective_policy
from lakeward.log import heads, locks, transactions
from lakeward.log.database import Session
from lakeward.model.commit import Head, TransactionState
from lakeward.model.locks import PATIENCE_SECONDS, Claim, Claims, Cycle, LockMode, victim
from lakeward.model.names import TableName
from lakeward.write.commit.conflict import locked
from lakeward.write.commit.outcome import patiently

_SHORTEST_PAUSE: Final = 0.005
_LONGEST_PAUSE: Final = 0.1
# Pauses grow with the time waited so far. A process that is next in the queue tries more often than
# others, so that a lock is passed on quickly although many wait.
_NEXT: Final = 0.05
_BEHIND: Final = 0.3


class TableLocks:
    """The locks that one transaction holds."""

    def __init__(
        self,
        context: LakeContext,
        transaction_id: str,
        register: Callable[[], None],
        abandoned: threading.Event,
    ) -> None:
        self._abandoned = abandoned
        self._context = context
        self._transaction_id = transaction_id
        self._register = register
        self._held: dict[TableName, LockMode] = {}
        self._asked_for = False

    def take(self, name: TableName, mode: LockMode, timeout: float) -> Head | None:
        """Lock a table until the transaction ends; wait while others hold it.

        Returns the table's head, or None if the transaction has the lock already.
        """
        self._asked_for = True
        held = self._held.get(name)
        if held is not None and held.covers(mode):
            return None
        return self._take(name, mode, timeout)

    def queue(self, name: TableName, mode: LockMode, timeout: float) -> None:
        """Acquire a lock that the user did not request, so that a commit gets its turn.

        On a deadlock the transaction releases all its locks, unless the user requested one.
        """
        try:
            self._take(name, mode, timeout)
        except Deadlock:
            if self._asked_for:
                raise
            # The transaction does not need its locks: it releases them and queues again.
            self._let_go()

    def release(self, session: Session) -> None:
        """Release the locks, when the transaction ends."""
        locks.release(session, self._transaction_id)

    def _take(self, name: TableName, mode: LockMode, timeout: float) -> Head:
        self._register()
        started = time.monotonic()
        request = _Request(self._context, self._transaction_id, name, mode, may_wait=timeout > 0)
        looking = tenacity.Retrying(
            retry=tenacity.retry_if_result(lambda answer: answer.head is None),
            wait=_pause,
            stop=tenacity.stop_after_delay(timeout) | tenacity.stop_when_event_set(self._abandoned),
            sleep=tenacity.sleep_using_event(self._abandoned),
            retry_error_callback=lambda state: state.outcome and state.outcome.result(),
        )
        try:
            answer: _Answer = looking(lambda: patiently(self._context, request.answer))
            if answer.head is None:
                waited = time.monotonic() - started
                raise locked(name, mode, answer.blocking, answer.now, waited)
        except BaseException:
            with suppress(LakewardError):
                patiently(self._context, request.withdraw)
            raise
        self._held[name] = mode
        return answer.head

    def _let_go(self) -> None:
        with self._context.database.write(durable=False) as session:
            locks.release(session, self._transaction_id)
        self._held.clear()


@dataclass(frozen=True, slots=True)
class _Answer:
    """The table's head, if the lock was acquired; otherwise the locks that prevent it."""

    head: Head | None
    blocking: list[Claim]
    now: int


class _Request:
    """A request for a lock, repeated until it is granted.

    Once the request is recorded in the store, it is repeated only if a read shows that it may be
    granted, so that waiting processes do not block those that they wait for.
    """

    def __init__(
        self,
        context: LakeContext,
        transaction_id: str,
        name: TableName,
        mode: LockMode,
        *,
        may_wait: bool,
    ) -> None:
        self._context = context
        self._transaction_id = transaction_id
        self._name = name
        self._mode = mode
        self._may_wait = may_wait
        self._recorded: Claim | None = None

    def answer(self) -> _Answer:
        """Try once more; return the table's head, or the locks that prevent this one."""
        return (self._recorded and self._look(self._recorded)) or self._ask()

    def withdraw(self) -> None:
        """Stop waiting."""
        if self._recorded is not None:
            with self._context.database.write(durable=False) as session:
                locks.withdraw(session, self._recorded.table_id, self._transaction_id)

    def _look(self, recorded: Claim) -> _Answer | None:
        """Return the locks that prevent this one; None if the request should be repeated."""
        database = self._context.database
        with database.read() as session:
            now = database.clock_ms(session)
            claims = locks.claims(session)
        blocking = claims.blocking(recorded)
        if (
            not blocking
            or any(c.lease_until_ms < now for c in blocking)
            or not any(w.transaction_id == self._transaction_id for w in claims.waiting)
            or self._cycle_to_break(claims)
        ):
            return None
        return _Answer(None, blocking, now)

    def _ask(self) -> _Answer:
        database = self._context.database
        # As in a registration: a power cut ends this process too, but a server may crash alone.
        with database.write(durable=database.is_remote) as session:
            found = heads.get(session, self._name)
            head = heads.lock(session, found.table_id, self._name)
            now = database.clock_ms(session)
            wanted = self._claim(session, head, now)
            blocking = locks.acquire(session, wanted, now)
            if not blocking:
                return _Answer(head, [], now)
            cycle: Cycle = ()
            if self._may_wait:
                locks.wait(session, wanted)
                cycle = self._cycle_to_break(locks.claims(session))
            if cycle:
                locks.withdraw(session, wanted.table_id, self._transaction_id)
        if cycle:
            raise _deadlock(self._transaction_id, cycle)
        if self._may_wait:
            self._recorded = wanted
        return _Answer(None, blocking, now)

    def _cycle_to_break(self, claims: Claims) -> Cycle:
        """Return the deadlock of which this transaction is the victim; an empty cycle if none."""
        cycle = claims.deadlock(self._transaction_id)
        return cycle if cycle and victim(cycle) == self._transaction_id else ()

    def _claim(self, session: Session, head: Head, now: int) -> Claim:
        own = transactions.get(session, self._transaction_id)
        if own is None or own.state is not TransactionState.OPEN:
            state = None if own is None else own.state
            what = f"Transaction {self._transaction_id} is no longer open."
            raise TransactionClosed(
                what, hint="Begin a new one.", transaction_id=self._transaction_id, state=state
            )
        if self._recorded is not None:
            return replace(self._recorded, table_id=head.table_id)
        return Claim(
            table_id=head.table_id,
            table=str(head.name),
            mode=self._mode,
            is_held=False,
            transaction_id=self._transaction_id,
            actor=own.actor,
            process=own.process,
            since_ms=now,
            opened_ms=own.opened_ms,
            lease_until_ms=own.lease_until_ms,
        )


def _pause(state: tenacity.RetryCallState) -> float:
    """Return the seconds until the next try, at random, so that processes do not try together."""
    answer: _Answer | None = state.outcome.result() if state.outcome is not None else None
    share = _NEXT if answer is not None and len(answer.blocking) == 1 else _BEHIND
    longest = share * (state.seconds_since_start or 0.0)
    longest = min(max(longest, _SHORTEST_PAUSE), _LONGEST_PAUSE)
    return random.uniform(0, longest)  # noqa: S311  no secret depends on it


def _deadlock(transaction_id: str, cycle: Cycle) -> Deadlock:
    steps = "; ".join(
        f"{wait.transaction_id} wants {wait.table} ({wait.mode.value}), which"
        f" {other.transaction_id} {'holds' if other.is_held else 'asked for first'}"
        for wait, other in cycle
    )
    what = (
        f"Transaction {transaction_id}, the youngest of {len(cycle)} that wait for each other,"
        f" gives way: {steps}."
    )
    hint = (
        "Nothing was committed. Run it again, as lake.run does. Locks that are asked for together,"
        " with lake.transaction(locks=...), never meet so."
    )
    mine = next(wait for wait, _ in cycle if wait.transaction_id == transaction_id)
    return Deadlock(
        what,
        hint=hint,
        transaction_id=transaction_id,
        table=mine.table,
        tables=sorted({wait.table for wait, _ in cycle}),
        cycle=[wait.transaction_id for wait, _ in cycle],
    )


def lock_patience(context: LakeContext, name: TableName) -> float:
    """Return the default number of seconds to wait for a lock of a table."""
    with context.database.read() as session:
        head = heads.find(session, name)
        if head is None:
            return PATIENCE_SECONDS
        policy = effective_policy(head, context.definition(session, head)).policy
    said = policy.lock_timeout_seconds
    return PATIENCE_SECONDS if said is None else said
