"""Sessions on a SQLite file: one transaction each, and errors of the driver as our own.

They are written out as classes, because a commit opens several and waits for each.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from lakeward.errors import OutcomeUnknown, StoreCorrupt, StoreError, StoreUnavailable
from lakeward.log.database import Params, Session
from lakeward.log.statement import Statement

if TYPE_CHECKING:
    from lakeward.log.sqlite import SqliteDatabase

_CHUNK: Final = 10_000
_WRITE_LOCK: Final = "write.lock"
_FULL: Final = "PRAGMA synchronous = FULL"
_NORMAL: Final = "PRAGMA synchronous = NORMAL"


class Connection(sqlite3.Connection):
    """One that notices what others write."""

    _seen: int | None = None

    def has_changed(self) -> bool:
        """Whether another connection has written since this was asked last, or ever."""
        (found,) = self.execute("PRAGMA data_version").fetchone()
        before, self._seen = self._seen, found
        return before is not None and before != found


class SqliteSession(Session):
    """A transaction on one SQLite connection."""

    dialect = "sqlite"
    bulk_from = 1

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def rows(self, statement: Statement, params: Params | None = None) -> list[Any]:
        """All rows of a query."""
        return self._connection.execute(*statement.bind("sqlite", params or {})).fetchall()

    def row(self, statement: Statement, params: Params | None = None) -> Any:
        """The first row of a query, or None."""
        return self._connection.execute(*statement.bind("sqlite", params or {})).fetchone()

    def stream(self, statement: Statement, params: Params | None = None) -> Iterator[list[Any]]:
        """The rows of a query in chunks."""
        cursor = self._connection.execute(*statement.bind("sqlite", params or {}))
        while chunk := cursor.fetchmany(_CHUNK):
            yield chunk

    def run(self, statement: Statement, params: Params | None = None) -> int:
        """Run a statement; how many rows it changed."""
        return self._connection.execute(*statement.bind("sqlite", params or {})).rowcount

    def many(self, statement: Statement, rows: Iterable[Params]) -> int:
        """Run a statement once per row; how many rows it changed in all."""
        sql = statement.sql("sqlite")
        values = (statement.bind("sqlite", row)[1] for row in rows)
        return self._connection.executemany(sql, values).rowcount

    def bulk(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Insert very many rows."""
        self._connection.executemany(_insertion(table, tuple(columns)), rows)

    def script(self, sql: str) -> None:
        """Run SQL that takes no parameters."""
        self._connection.execute(sql)


class Reading:
    """A session that only reads."""

    __slots__ = ("_connection", "_database")

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    def __enter__(self) -> Session:
        try:
            self._connection = connection = self._database.borrow()
        except sqlite3.Error as error:
            raise translate(error, self._database.label) from error
        try:
            connection.execute("BEGIN")
        except BaseException as error:
            self._end(error)
            raise
        return SqliteSession(connection)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(sqlite3.Error):
            self._connection.execute("ROLLBACK")
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        self._database.give_back(self._connection, error)
        if isinstance(error, sqlite3.Error):
            raise translate(error, self._database.label) from error


class Writing:
    """A session that writes: the queue's lock, a transaction, and its end."""

    __slots__ = ("_connection", "_database", "_durable", "_handle")

    def __init__(self, database: SqliteDatabase, *, durable: bool) -> None:
        self._database = database
        self._durable = durable

    def __enter__(self) -> Session:
        self._handle = self._database.lock(_WRITE_LOCK)
        try:
            self._connection = connection = self._database.borrow()
        except BaseException as error:
            self._database.unlock(_WRITE_LOCK, self._handle)
            self._raise(error)
            raise
        try:
            connection.execute(_FULL if self._durable else _NORMAL)
            connection.execute("BEGIN IMMEDIATE")
            if self._durable:
                self._database.is_busy = connection.has_changed()
        except BaseException as error:
            self._end(error)
            raise
        return SqliteSession(connection)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._roll_back()
            self._end(error)
            return
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as failure:
            self._roll_back()
            what = f"The store {self._database.label} failed while it committed: {failure}."
            doubt = OutcomeUnknown(what, hint="Free disk space or check the disk.")
            self._end(doubt)
            raise doubt from failure
        except BaseException as failure:
            self._end(failure)
            raise
        self._end(None)

    def _roll_back(self) -> None:
        with suppress(sqlite3.Error):
            self._connection.execute("ROLLBACK")

    def _end(self, error: BaseException | None) -> None:
        self._database.give_back(self._connection, error)
        self._database.unlock(_WRITE_LOCK, self._handle)
        self._raise(error)

    def _raise(self, error: BaseException | None) -> None:
        """Errors of the driver leave as errors of our own."""
        if isinstance(error, sqlite3.Error):
            raise translate(error, self._database.label) from error


def translate(error: sqlite3.Error, label: str) -> StoreError:
    """An error of the driver as one of our own."""
    text = str(error)
    if "locked" in text or "busy" in text:
        what = f"The store {label} stayed locked by another program."
        return StoreUnavailable(what, hint="Try again.")
    if "malformed" in text or "not a database" in text or "no such table" in text:
        what = f"The store {label} is damaged or is not a Lakeward store: {text}."
        return StoreCorrupt(what, hint="Restore a backup, or run `lakeward rebuild`.")
    if "readonly" in text or "unable to open" in text:
        what = f"The store {label} cannot be opened for this: {text}."
        return StoreError(what, hint="Check the path and its permissions.")
    if "full" in text or "I/O" in text:
        what = f"The store {label} could not be written or read: {text}."
        return StoreError(what, hint="Free disk space or check the disk.")
    return StoreError(f"The store {label} failed: {text}.")


@cache
def _insertion(table: str, columns: tuple[str, ...]) -> str:
    marks = ",".join("?" * len(columns))
    return f"INSERT INTO {table} ({','.join(columns)}) VALUES ({marks})"  # noqa: S608  our own names
