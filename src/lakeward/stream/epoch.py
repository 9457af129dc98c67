"""Epochs: the transaction of an epoch, the thread that commits submitted epochs, the result."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from lakeward.write.transaction.staging import Staging
from lakeward.write.transaction.transaction import Transaction

_MAX_SUBMITTED: Final = 8


@dataclass(frozen=True, slots=True)
class EpochResult:
    """An epoch that is in the lake.

    Attributes:
        epoch: The number of the epoch.
        replayed: Whether the epoch had been committed before; then the rows written now were
            discarded.
        transaction_id: The transaction that committed the epoch; None if it is no longer in the
            log.
        versions: The version of each table that contains the epoch.
        rows: The number of rows written; for a replayed epoch, of rows discarded.
        timestamp: When the epoch was committed.
        published: False if the commit could not be published yet; it is valid all the same.
    """

    epoch: int
    replayed: bool
    transaction_id: str | None
    versions: Mapping[str, int]
    rows: int
    timestamp: datetime | None = None
    published: bool = True


class Epoch:
    """Rows of one or several tables that one transaction will commit.

    The transaction begins when the first rows are staged. Any thread may use the object.
    """

    def __init__(self, begin: Callable[[], Transaction]) -> None:
        self._begin = begin
        self._transaction: Transaction | None = None
        self._stagings: dict[str, Staging] = {}
        self._lock = threading.Lock()

    @property
    def transaction(self) -> Transaction:
        """The epoch's transaction; begun by the first access."""
        with self._lock:
            return self._begun()

    def staging(self, name: str) -> Staging:
        """Return the staging of a table for this epoch; begin it if necessary."""
        with self._lock:
            found = self._stagings.get(name)
            if found is None:
                found = self._stagings[name] = self._begun().staging(name)
            return found

    def roll_back(self) -> None:
        """Roll back the transaction. The caller ensures that no thread is staging rows."""
        with self._lock:
            if self._transaction is not None:
                self._transaction.rollback()
            self._transaction = None
            self._stagings = {}

    def _begun(self) -> Transaction:
        if self._transaction is None:
            self._transaction = self._begin()
        return self._transaction


class CommitThread:
    """Commits submitted epochs in a background thread, in order, with a bounded backlog."""

    def __init__(self) -> None:
        self._room = threading.BoundedSemaphore(_MAX_SUBMITTED)
        self._thread: ThreadPoolExecutor | None = None
        self._last: Future[EpochResult] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a submitted epoch is not committed yet."""
        return self._last is not None and not self._last.done()

    def submit(self, commit: Callable[[], EpochResult]) -> Future[EpochResult]:
        """Run a commit after those submitted before; wait while the backlog is full."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "lakeward-epochs")
        self._room.acquire()
        self._last = self._thread.submit(self._run, commit)
        return self._last

    def wait(self) -> None:
        """Wait until all submitted commits have ended."""
        if self._last is not None:
            self._last.exception()

    def close(self) -> None:
        """Wait for all submitted commits, and end the thread."""
        if self._thread is not None:
            self._thread.shutdown()

    def _run(self, commit: Callable[[], EpochResult]) -> EpochResult:
        try:
            return commit()
        finally:
            self._room.release()
