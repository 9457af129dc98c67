"""Registers a transaction in the store, which identifies its files, and renews leases."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable
from typing import Final, TypeVar

from lakeward.context import LakeContext
from lakeward.engines.base import ARROW, Capability, Engine, unsupported
from lakeward.errors import InvalidInput, LakewardError, TransactionClosed
from lakeward.log import locks, pins, transactions, unrecorded
from lakeward.log.database import Database, Session
from lakeward.model.commit import Isolation, TransactionState, new_transaction_id
from lakeward.model.steps import reach

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
_PERIOD_SECONDS: Final = transactions.LEASE_MS / 3000
_LEVELS: Final = {level.value: level for level in Isolation}


class LeaseKeeper:
    """Renews the leases of open transactions and pins until they are released."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._transactions: set[tuple[str, int]] = set()
        self._pins: set[str] = set()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._pid = 0
        self._lock = threading.Lock()

    def hold_transaction(self, transaction_id: str, opened_ms: int) -> None:
        """Renew the lease of a transaction from now on, until it is opened again elsewhere."""
        self._transactions.add((transaction_id, opened_ms))
        self._start()

    def hold_pin(self, pin_id: str) -> None:
        """Renew a pin's lease from now on."""
        self._pins.add(pin_id)
        self._start()

    def let_go_transaction(self, transaction_id: str, opened_ms: int) -> None:
        """Stop renewing a transaction's lease, so that it expires."""
        self._transactions.discard((transaction_id, opened_ms))

    def let_go(self, pin_id: str) -> None:
        """Stop renewing a pin's lease, so that it expires."""
        self._pins.discard(pin_id)

    def close(self) -> None:
        """Stop renewing all leases."""
        self._stop.set()

    def _start(self) -> None:
        if self._pid == os.getpid():
            return
        with self._lock:
            if self._pid == os.getpid():
                return
            self._pid = os.getpid()
            self._stop = threading.Event()
            self._thread = threading.Thread(
                target=self._run, args=(self._stop,), name="lakeward-leases", daemon=True
            )
            self._thread.start()

    def _run(self, stop: threading.Event) -> None:
        while not stop.wait(_PERIOD_SECONDS):
            try:
                if self._transactions:
                    transactions.extend(self._database, sorted(self._transactions))
                if self._pins:
                    pins.extend(self._database, sorted(self._pins))
            except LakewardError as error:
                # The next round tries again; a transaction whose lease expires cannot be ratified.
                _LOG.warning("Leases could not be renewed: %s", error)


class Registered:
    """The row of one transaction, inserted when it is first needed; its lease is renewed.

    Attributes:
        is_registered: Whether the row was inserted, or opened again.
        opened_ms: When the row was opened. If another process opens the transaction again, after
            its lease expired, this object cannot commit or end it any more.
    """

    def __init__(
        self,
        context: LakeContext,
        keeper: LeaseKeeper,
        transaction_id: str,
        *,
        isolation: Isolation,
        message: str | None,
    ) -> None:
        self._context = context
        self._keeper = keeper
        self._transaction_id = transaction_id
        self._isolation = isolation
        self._message = message
        self.is_registered = False
        self.opened_ms = 0
        self._is_held = False

    def ensure(self) -> None:
        """Register the transaction, unless it is registered.

        A transaction of a chosen id that ended without a commit is opened again.
        """
        if not self.is_registered:
            self.look(_at_nothing)

    def look(self, question: Callable[[Session], T]) -> T:
        """Run a query; the first one runs in the session that registers the transaction.

        If `question` raises an error, the transaction is not registered by it.
        """
        if self.is_registered:
            with self._context.database.read() as session:
                return question(session)
        from lakeward.write.commit.outcome import patiently

        found = patiently(self._context, lambda: self._register(question))
        self.is_registered = self._is_held = True
        self._keeper.hold_transaction(self._transaction_id, self.opened_ms)
        reach("transaction.opened")
        return found

    def let_go(self) -> None:
        """Stop renewing the lease."""
        if self._is_held:
            self._is_held = False
            self._keeper.let_go_transaction(self._transaction_id, self.opened_ms)

    def __del__(self) -> None:
        # The lease of a transaction that was never ended must not be renewed for ever.
        self.let_go()

    def roll_back(
        self, before: Callable[[Session], None], release: Callable[[Session], None]
    ) -> bool:
        """Close the row; return True if it is certain that the transaction was not committed.

        `before` is called in the same session. So is `release` after the row is closed, unless
        another process has opened the transaction again: then its locks belong to that process.
        """
        self.let_go()
        if not self.is_registered:
            return True
        try:
            with self._context.database.write() as session:
                before(session)
                now, own = self._context.database.clock_ms(session), self._transaction_id
                transactions.end(session, own, TransactionState.ROLLED_BACK, now, self.opened_ms)
                state = transactions.lock(session, own)
                if state is not TransactionState.OPEN:
                    unrecorded.release(session, own)
                    release(session)
        except LakewardError as error:
            _LOG.warning("Transaction %s could not be closed: %s", self._transaction_id, error)
            return False
        return state is not TransactionState.RATIFIED

    def _register(self, question: Callable[[Session], T]) -> T:
        # A power cut on this host ends the process too, and files of an unknown transaction are
        # garbage. But a server that crashes alone must have the transaction after its restart.
        with self._context.database.write(durable=self._context.database.is_remote) as session:
            self._context.check_bound(session)
            self._open(session)
            return question(session)

    def _open(self, session: Session) -> None:
        self.opened_ms = self._context.database.clock_ms(session)
        if transactions.register(
            session,
            self.opened_ms,
            transaction_id=self._transaction_id,
            actor=self._context.actor,
            isolation=str(self._isolation),
            message=self._message,
        ):
            return
        found = transactions.get(session, self._transaction_id)
        if found is not None and found.state is not TransactionState.OPEN and self._reopen(session):
            found = transactions.get(session, self._transaction_id)
        if found is None or found.state is TransactionState.OPEN:
            # Processes that share an open transaction may all commit it; it is committed once.
            self.opened_ms = self.opened_ms if found is None else found.opened_ms
        else:
            what = f"Transaction {self._transaction_id} is {found.state.value} already."
            hint = "lake.outcome tells what it did."
            raise TransactionClosed(
                what, hint=hint, transaction_id=self._transaction_id, state=found.state
            )

    def _reopen(self, session: Session) -> bool:
        # Others may hold the locks by now that this transaction held when it ended.
        locks.release(session, self._transaction_id)
        now = self._context.database.clock_ms(session)
        return transactions.reopen(session, self._transaction_id, now)


def _at_nothing(_: Session) -> None:
    pass


def checked_isolation(text: str, engine: Engine = ARROW) -> Isolation:
    """Return the isolation level of this name; raise an error if unknown or unsupported."""
    level = _LEVELS.get(str(text).lower())
    if level is None:
        what = f"{text!r} is not an isolation level."
        raise InvalidInput(what, hint=f"Use one of {', '.join(_LEVELS)}.")
    if level is Isolation.READ_COMMITTED and Capability.READ_NEWEST not in engine.can:
        what = f"A transaction on {engine.name} sees one cut over all tables."
        hint = "Or use isolation='snapshot' or 'serializable'."
        raise unsupported(engine, Capability.READ_NEWEST, what, hint=hint)
    return level


def checked_id(text: object) -> str:
    """Return the id that a user chose, if it is valid, or a new one if `text` is None."""
    if text is None:
        return new_transaction_id()
    if not isinstance(text, str) or not _ID.fullmatch(text):
        what = f"{text!r} is not a transaction id."
        raise InvalidInput(what, hint="Use up to 128 letters, digits, '-' and '_'.")
    return text
