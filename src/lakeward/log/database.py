"""The contract of a database that holds a log: sessions that read, and sessions that write.

A session is a database transaction. A read session sees one consistent state from its first
statement on. A write session commits as a whole or not at all. Errors of the driver are raised as
Lakeward's errors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from lakeward.errors import ReadOnlyLake
from lakeward.log.statement import Statement

Params = Mapping[str, Any]


class Session(ABC):
    """One database transaction."""

    dialect: str
    bulk_from: int
    """The number of rows from which on `bulk` is faster than `many`."""
    is_placed = False
    """Whether the session gave a transaction its position, so that its commit wakes followers."""
    has_redefined = False
    """Whether the session inserted definitions or policies, which are not committed yet."""

    @abstractmethod
    def rows(self, statement: Statement, params: Params | None = None) -> list[Any]:
        """Run a query; return all its rows."""

    @abstractmethod
    def row(self, statement: Statement, params: Params | None = None) -> Any:
        """Run a query; return its first row, or None."""

    @abstractmethod
    def stream(self, statement: Statement, params: Params | None = None) -> Iterator[list[Any]]:
        """Run a query; yield its rows in chunks, for results too large for memory."""

    @abstractmethod
    def run(self, statement: Statement, params: Params | None = None) -> int:
        """Run a statement; return the number of rows that it changed."""

    @abstractmethod
    def many(self, statement: Statement, rows: Iterable[Params]) -> int:
        """Run a statement once per row; return the number of database rows changed in all."""

    @abstractmethod
    def bulk(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Insert many rows, in the fastest way of the database."""

    @abstractmethod
    def script(self, sql: str) -> None:
        """Run SQL without parameters."""


class Waiter(ABC):
    """Waits for new transactions."""

    @abstractmethod
    def wait(self, seconds: float) -> None:
        """Return when a transaction may have been committed, or after this many seconds."""

    def close(self) -> None:  # noqa: B027  most hold nothing
        """Release what the waiter holds, such as a connection."""


class Database(ABC):
    """A database that can hold a log; `dialect` is its name in statements."""

    dialect: str
    patience_seconds: float
    """For how long a commit whose outcome is unknown is retried."""
    is_remote: bool
    """Whether the database may crash and restart while its clients keep running."""
    is_busy = False
    """Whether others wrote to the database between the last two writes of this object."""
    read_only: str | None = None
    """Why nothing may be written to the database; None if it may be written."""

    def check_writable(self) -> None:
        """Raise `ReadOnlyLake` if nothing may be written to the database."""
        if self.read_only is not None:
            what = (
                f"The lake {self.label} is open read-only: {self.read_only}. Nothing was written."
            )
            hint = "Open it as a user who may write, without read_only=True."
            raise ReadOnlyLake(what, hint=hint, reason=self.read_only)

    @property
    @abstractmethod
    def label(self) -> str:
        """Where the database is, without secrets."""

    @property
    @abstractmethod
    def jdbc(self) -> dict[str, str] | None:
        """JDBC's `uri` and properties `jdbc.…`, password included; None if Java cannot reach it."""

    @abstractmethod
    def read(self) -> AbstractContextManager[Session]:
        """Open a session that only reads, from one consistent state."""

    @abstractmethod
    def write(self, *, durable: bool = True) -> AbstractContextManager[Session]:
        """Open a session that commits when it ends, or changes nothing.

        Without `durable` the commit is not synced: others see it, and it survives a power cut once
        a durable session has committed after it.
        """

    def wait_for_writers(self) -> None:  # noqa: B027  a writer waits by locking rows
        """Wait without writing, in a read-only store, until all commits under way are visible."""

    def waiter(self) -> Waiter | None:
        """Return a waiter that the database wakes; None if the caller has to poll."""
        return None

    @abstractmethod
    def turn(self, table_id: int) -> AbstractContextManager[None]:
        """Hold a lock for publishing a table; it only keeps publishers from repeating work."""

    @abstractmethod
    def clock_ms(self, session: Session) -> int:
        """Return the time in ms by the clock that all users of the database share, for leases."""

    @abstractmethod
    def place(self, session: Session) -> str:
        """Return what distinguishes this database from a copy: a file's path or a server's ids.

        It contains no secrets, no host and no user.
        """

    @abstractmethod
    def has_table(self, name: str) -> bool:
        """Return whether the database has a table of this name."""

    @abstractmethod
    def lock_schema(self, session: Session) -> None:
        """Prevent other migrations until this write session ends."""

    @abstractmethod
    def after_import(self, session: Session) -> None:
        """Advance the sequence of ids past the ids of rows that were inserted with ids."""

    @abstractmethod
    def dialect_ddl(self, statement: str) -> str:
        """Translate a migration's statement into this database's dialect."""

    @abstractmethod
    def check(self) -> list[str]:
        """Run the database's own integrity check; return the problems found."""

    @abstractmethod
    def close(self) -> None:
        """Close all connections."""
