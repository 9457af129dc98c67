"""Leases kept alive while their holders live: one thread a lake, once there is one to hold."""

from __future__ import annotations

import logging
import os
import threading
from typing import Final

from lakeward.errors import LakewardError
from lakeward.log import pins, transactions
from lakeward.log.database import Database

_LOG = logging.getLogger(__name__)
_PERIOD_SECONDS: Final = transactions.LEASE_MS / 3000


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
