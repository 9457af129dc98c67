"""An epoch under way: one transaction, begun when its first rows are staged."""

from __future__ import annotations

import threading
from collections.abc import Callable

from lakeward.write.transaction.staging import Staging
from lakeward.write.transaction.transaction import Transaction


class Epoch:
    """What was written since the last epoch, of one table or several."""

    def __init__(self, begin: Callable[[], Transaction]) -> None:
        self._begin = begin
        self._transaction: Transaction | None = None
        self._stagings: dict[str, Staging] = {}
        self._lock = threading.Lock()

    @property
    def transaction(self) -> Transaction:
        """The transaction, begun if it was not."""
        with self._lock:
            return self._begun()

    def staging(self, name: str) -> Staging:
        """Where rows of a table go; from any thread."""
        with self._lock:
            found = self._stagings.get(name)
            if found is None:
                found = self._stagings[name] = self._begun().staging(name)
            return found

    def roll_back(self) -> None:
        """Let go of everything; nothing may be staged meanwhile."""
        with self._lock:
            if self._transaction is not None:
                self._transaction.rollback()
            self._transaction = None
            self._stagings = {}

    def _begun(self) -> Transaction:
        if self._transaction is None:
            self._transaction = self._begin()
        return self._transaction
