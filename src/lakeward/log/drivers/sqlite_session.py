"""Statements on one SQLite connection, and the driver's errors as our own."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Final

from lakeward.errors import StoreCorrupt, StoreError, StoreUnavailable
from lakeward.log.database import Params, Session
from lakeward.log.statement import Statement

_CHUNK: Final = 10_000


class Connection(sqlite3.Connection):
    """A connection that notices writes of others."""

    _seen: int | None = None

    def has_changed(self) -> bool:
        """Whether another connection has written since the last call; False on the first."""
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
