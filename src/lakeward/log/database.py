"""What the log asks of a database: read sessions, and one writer at a time where it needs that.

A session is a database transaction. `read` sees one consistent state from its first statement to
its end. `write` is all or nothing. Driver errors leave here as errors of our own tree.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from lakeward.log.statement import Statement

Params = Mapping[str, Any]
Row = Sequence[Any]


class Session(ABC):
    """One database transaction."""

    dialect: str
    bulk_from: int
    """How many rows are worth `bulk` rather than `many`."""

    @abstractmethod
    def rows(self, statement: Statement, params: Params | None = None) -> list[Any]:
        """All rows of a query."""

    @abstractmethod
    def row(self, statement: Statement, params: Params | None = None) -> Any:
        """The first row of a query, or None."""

    @abstractmethod
    def stream(self, statement: Statement, params: Params | None = None) -> Iterator[list[Any]]:
        """The rows of a query in chunks, for answers too large to hold."""

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


class Database(ABC):
    """A database that can hold a log.

    Attributes:
        dialect: Its name in SQLAlchemy.
        patience_seconds: How long it is worth asking again when it does not answer.
    """

    dialect: str
    patience_seconds: float
    is_remote: bool
    """Whether it may crash and come back while its clients live on."""
    is_busy = False
    """Whether others wrote to it, one writer at a time, when this object last did."""

    @property
    @abstractmethod
    def label(self) -> str:
        """Where the database is, without secrets."""

    @property
    @abstractmethod
    def jdbc(self) -> dict[str, str] | None:
        """How Java reaches it: `uri`, and the driver's properties as `jdbc.…`; None if it cannot.

        A password is among them where the lake was opened with one.
        """

    @abstractmethod
    def read(self) -> AbstractContextManager[Session]:
        """A session that only reads, from one consistent state."""

    @abstractmethod
    def write(self, *, durable: bool = True) -> AbstractContextManager[Session]:
        """A session that commits at its end, or changes nothing.

        Args:
            durable: False for what need not survive a power cut. Others see it all the same, and
                it is as safe as everything else once a durable session has committed after it.
        """

    @abstractmethod
    def turn(self, table_id: int) -> AbstractContextManager[None]:
        """Hold the turn to publish a table, so that publishers do not do each other's work.

        Publication is correct without it; it only saves effort.
        """

    @abstractmethod
    def clock_ms(self, session: Session) -> int:
        """The clock that leases are measured by: one for all who share the database."""

    @abstractmethod
    def place(self, session: Session) -> str:
        """What tells this database from a copy of it: a file's path, or a server's own ids.

        It holds no secrets, no host and no user.
        """

    @abstractmethod
    def has_table(self, name: str) -> bool:
        """Whether the database has a table of this name."""

    @abstractmethod
    def lock_schema(self, session: Session) -> None:
        """Keep others from migrating the store until this write session ends."""

    @abstractmethod
    def after_import(self, session: Session) -> None:
        """Go on giving out ids after those that rows were inserted with."""

    @abstractmethod
    def dialect_ddl(self, statement: str) -> str:
        """A migration's statement in this database's words."""

    @abstractmethod
    def check(self) -> list[str]:
        """What the database's own integrity check finds wrong."""

    @abstractmethod
    def close(self) -> None:
        """Give connections back."""
