"""A transaction's row in the store, by which its files are known, and the leases that keep it."""

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
from lakeward.log import locks, pins, transactions
from lakeward.log.database import Database, Session
from lakeward.model.commit import Isolation, TransactionState, new_transaction_id
from lakeward.model.steps import reach

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
_PERIOD_SECONDS: Final = transactions.LEASE_MS / 3000
_LEVELS: Final = {level.value: level for level in Isolation}


class LeaseKeeper:
    """Renews the leases of open transactions and pins until they are let go."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._transactions: set[str] = set()
        self._pins: set[str] = set()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._pid = 0
        self._lock = threading.Lock()

    def hold_transaction(self, transaction_id: str) -> None:
        """Keep a transaction's lease alive."""
        self._transactions.add(transaction_id)
        self._start()

    def hold_pin(self, pin_id: str) -> None:
        """Keep a pin's lease alive."""
        self._pins.add(pin_id)
        self._start()

    def let_go(self, held: str) -> None:
        """Let a lease run out."""
        self._transactions.discard(held)
        self._pins.discard(held)

    def close(self) -> None:
        """Stop renewing."""
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
                # The next round tries again; a lease that runs out meanwhile is refused at ratify.
                _LOG.warning("Leases could not be renewed: %s", error)


class Registered:
    """The row of one transaction, written when it first needs one and kept alive until it ends."""

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
        self._is_held = False

    def ensure(self) -> None:
        """Register the transaction, unless it is. A chosen id that failed before is open again."""
        if not self.is_registered:
            self.look(_at_nothing)

    def look(self, question: Callable[[Session], T]) -> T:
        """Run a query before writing; the first one in the session that registers.

        What the question raises leaves the transaction as it was.
        """
        if self.is_registered:
            with self._context.database.read() as session:
                return question(session)
        from lakeward.write.commit.outcome import patiently

        found = patiently(self._context, lambda: self._register(question))
        self.is_registered = self._is_held = True
        self._keeper.hold_transaction(self._transaction_id)
        reach("transaction.opened")
        return found

    def let_go(self) -> None:
        """Stop keeping the lease alive."""
        if self._is_held:
            self._is_held = False
            self._keeper.let_go(self._transaction_id)

    def __del__(self) -> None:
        # A transaction that was never ended must not keep its lease as long as the process lives.
        self.let_go()

    def roll_back(self, before: Callable[[Session], None]) -> bool:
        """Close the row; True when it is sure that the transaction did not happen."""
        self.let_go()
        if not self.is_registered:
            return True
        try:
            with self._context.database.write() as session:
                before(session)
                now = self._context.database.clock_ms(session)
                transactions.end(session, self._transaction_id, TransactionState.ROLLED_BACK, now)
                state = transactions.lock(session, self._transaction_id)
        except LakewardError as error:
            _LOG.warning("Transaction %s could not be closed: %s", self._transaction_id, error)
            return False
        return state is not TransactionState.RATIFIED

    def _register(self, question: Callable[[Session], T]) -> T:
        # A power cut on this host ends the process too, and files of an id that nobody knows are
        # nobody's. A server that crashes alone must still know the transaction when it is back.
        with self._context.database.write(durable=self._context.database.is_remote) as session:
            self._context.check_bound(session)
            self._open(session)
            return question(session)

    def _open(self, session: Session) -> None:
        if transactions.register(
            session,
            self._context.database.clock_ms(session),
            transaction_id=self._transaction_id,
            actor=self._context.actor,
            isolation=str(self._isolation),
            message=self._message,
        ):
            return
        found = transactions.get(session, self._transaction_id)
        if found is None or found.state is TransactionState.OPEN:
            return
        if not self._reopen(session):
            what = f"Transaction {self._transaction_id} is {found.state.value} already."
            hint = "lake.outcome tells what it did."
            raise TransactionClosed(
                what, hint=hint, transaction_id=self._transaction_id, state=found.state
            )

    def _reopen(self, session: Session) -> bool:
        # Others may hold by now what this id held when it ended.
        locks.release(session, self._transaction_id)
        now = self._context.database.clock_ms(session)
        return transactions.reopen(session, self._transaction_id, now)


def _at_nothing(_: Session) -> None:
    pass


def checked_isolation(text: str, engine: Engine = ARROW) -> Isolation:
    """The isolation level of this name, where an engine supports it."""
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
    """The id that a user chose, or a new one where none is given."""
    if text is None:
        return new_transaction_id()
    if not isinstance(text, str) or not _ID.fullmatch(text):
        what = f"{text!r} is not a transaction id."
        raise InvalidInput(what, hint="Use up to 128 letters, digits, '-' and '_'.")
    return text
