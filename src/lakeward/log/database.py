"""The contract of a database that holds a log: sessions that read, and sessions that write.

A session is a database transaction. A read session sees one consistent state from its first
statement on. A write session commits as a whole or not at all. Driver errors become our own errors.
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
    """From how many rows on `bulk` is faster than `many`."""
    is_placed = False
    """Whether it gave a transaction its position, so that its commit notifies followers."""

    @abstractmethod
    def rows(self, statement: Statement, params: Params | None = None) -> list[Any]:
        """All rows of a query."""

    @abstractmethod
    def row(self, statement: Statement, params: Params | None = None) -> Any:
        """The first row of a query, or None."""

    @abstractmethod
    def stream(self, statement: Statement, params: Params | None = None) -> Iterator[list[Any]]:
        """The rows of a query in chunks, for results too large for memory."""

    @abstractmethod
    def run(self, statement: Statement, params: Params | None = None) -> int:
        """Run a statement; how many rows it changed."""

    @abstractmethod
    def many(self, statement: Statement, rows: Iterable[Params]) -> int:
        """Run a statement once per row; how many rows of the database it changed in all."""

    @abstractmethod
    def bulk(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Insert very many rows, as fast as the database takes them."""

    @abstractmethod
    def script(self, sql: str) -> None:
        """Run SQL that takes no parameters."""


class Waiter(ABC):
    """Waits for new transactions."""

    @abstractmethod
    def wait(self, seconds: float) -> None:
        """Return when a transaction may have been committed, or after so many seconds."""

    def close(self) -> None:  # noqa: B027  most hold nothing
        """Stop waiting."""


class Database(ABC):
    """A database that can hold a log; `dialect` is its name in statements."""

    dialect: str
    patience_seconds: float
    """How long a commit without an answer is retried."""
    is_remote: bool
    """Whether it may crash and restart while its clients live on."""
    is_busy = False
    """Whether others wrote to it between the last two writes of this object."""
    read_only: str | None = None
    """Why nothing is written to it; None where it may be written."""

    def check_writable(self) -> None:
        """Raise `ReadOnlyLake` if nothing may be written to it."""
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
        """A session that only reads, from one consistent state."""

    @abstractmethod
    def write(self, *, durable: bool = True) -> AbstractContextManager[Session]:
        """A session that commits at its end, or changes nothing.

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
        """The clock of leases: one for all who share the database."""

    @abstractmethod
    def place(self, session: Session) -> str:
        """What distinguishes this database from a copy: a file's path, or a server's own ids.

        It contains no secrets, no host and no user.
        """

    @abstractmethod
    def has_table(self, name: str) -> bool:
        """Whether the database has a table of this name."""

    @abstractmethod
    def lock_schema(self, session: Session) -> None:
        """Lock out other migrations until this write session ends."""

    @abstractmethod
    def after_import(self, session: Session) -> None:
        """Continue the id sequence after rows were inserted with ids."""

    @abstractmethod
    def dialect_ddl(self, statement: str) -> str:
        """A migration's statement in this database's dialect."""

    @abstractmethod
    def check(self) -> list[str]:
        """The problems that the database's own integrity check finds."""

    @abstractmethod
    def close(self) -> None:
        """Close connections."""
