"""The log in one SQLite file: write-ahead log, every commit synced to disk.

SQLite takes one writer at a time and makes the others sleep and retry, which starves some of them
for hundreds of milliseconds. Writers therefore queue on a file lock first: the kernel wakes the
next one. SQLite's own lock still holds whoever comes from outside.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from lakeward.errors import (
    LakeNotFound,
    LakewardError,
    OutcomeUnknown,
    StoreCorrupt,
    StoreError,
    StoreUnavailable,
)
from lakeward.log.database import Database, Params, Session
from lakeward.log.statement import Statement
from lakeward.model.clock import now_ms

_BUSY_SECONDS: Final = 60.0
_CHUNK: Final = 10_000
_TURNS: Final = 64


class SqliteSession(Session):
    """A transaction on one SQLite connection."""

    dialect = "sqlite"

    def __init__(self, connection: sqlite3.Connection) -> None:
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
        sql, _ = statement.compiled("sqlite")
        values = (statement.bind("sqlite", row)[1] for row in rows)
        return self._connection.executemany(sql, values).rowcount

    def bulk(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Insert very many rows."""
        marks = ",".join("?" * len(columns))
        sql = f"INSERT INTO {table} ({','.join(columns)}) VALUES ({marks})"  # noqa: S608  our own names
        self._connection.executemany(sql, rows)

    def script(self, sql: str) -> None:
        """Run SQL that takes no parameters."""
        self._connection.execute(sql)


class SqliteDatabase(Database):
    """A SQLite file.

    Args:
        path: The file.
        create: Make it when it is missing.

    Raises:
        LakeNotFound: The file is missing and was not to be made.
    """

    dialect = "sqlite"
    patience_seconds = 2.0
    is_remote = False

    def __init__(self, path: Path, *, create: bool) -> None:
        self.path = path
        self._locks = path.parent / ".lakeward"
        self._idle: deque[sqlite3.Connection] = deque()
        self._handles: dict[str, deque[int]] = {}
        self._pid = os.getpid()
        self._forked: list[Any] = []
        if not path.exists():
            if not create:
                what = f"There is no lake at {path.parent}."
                raise LakeNotFound(what, hint="Create it with `lakeward init` or lw.open(...).")
            _make_directory(path.parent)
        _make_directory(self._locks)

    @property
    def label(self) -> str:
        """The file's path."""
        return str(self.path)

    @contextmanager
    def read(self) -> Generator[Session]:
        """A session over one snapshot of the file."""
        with self._translated(), self._connection() as connection:
            connection.execute("BEGIN")
            try:
                yield SqliteSession(connection)
            finally:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")

    @contextmanager
    def write(self, *, durable: bool = True) -> Generator[Session]:
        """A session that queues for the file's only writer."""
        with self._translated(), self._locked("write.lock"), self._connection() as connection:
            connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield SqliteSession(connection)
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
            self._commit(connection)

    @contextmanager
    def turn(self, table_id: int) -> Generator[None]:
        """Hold the turn to publish a table, among the processes of this host."""
        with self._locked(f"turn-{table_id % _TURNS}.lock"):
            yield

    def clock_ms(self, session: Session) -> int:  # noqa: ARG002  the file lives on this host
        """This host's clock: whoever shares the file shares the host."""
        return now_ms()

    def has_table(self, name: str) -> bool:
        """Whether the file has a table of this name."""
        statement = Statement("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = :name")
        with self.read() as session:
            return session.row(statement, {"name": name}) is not None

    def lock_schema(self, session: Session) -> None:
        """A write session is alone already."""

    def after_import(self, session: Session) -> None:
        """SQLite takes the next free id by itself."""

    def dialect_ddl(self, statement: str) -> str:
        """A migration's statement in SQLite's words."""
        return statement.format(identity="INTEGER PRIMARY KEY", clustered=" WITHOUT ROWID")

    def check(self) -> list[str]:
        """What SQLite's integrity check finds wrong."""
        with self._translated(), self._connection() as connection:
            found = [row[0] for row in connection.execute("PRAGMA integrity_check(20)")]
        return [] if found == ["ok"] else found

    def copy_to(self, target: Path) -> None:
        """Copy the whole file while others go on writing."""
        with self._translated(), self._connection() as connection:
            copy = sqlite3.connect(target)
            try:
                connection.backup(copy)
                copy.execute("PRAGMA journal_mode = DELETE")
            finally:
                copy.close()

    def close(self) -> None:
        """Close idle connections."""
        while self._idle:
            self._idle.pop().close()
        for idle in self._handles.values():
            while idle:
                os.close(idle.pop())

    def _commit(self, connection: sqlite3.Connection) -> None:
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            what = f"The store {self.label} failed while it committed: {error}."
            raise OutcomeUnknown(what, hint="Free disk space or check the disk.") from error

    def _forget_parent(self) -> None:
        """A forked child must not touch its parent's connections and locks, not even to close."""
        if self._pid != os.getpid():
            self._forked.append((self._idle, self._handles))
            self._idle, self._handles = deque(), {}
            self._pid = os.getpid()

    @contextmanager
    def _connection(self) -> Generator[sqlite3.Connection]:
        self._forget_parent()
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect()
        try:
            yield connection
        except BaseException as error:
            if isinstance(error, sqlite3.Error | OutcomeUnknown):
                connection.close()
            else:
                self._idle.append(connection)
            raise
        self._idle.append(connection)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path,
            timeout=_BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA temp_store = MEMORY")
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def _locked(self, name: str) -> Generator[None]:
        self._forget_parent()
        idle = self._handles.setdefault(name, deque())
        try:
            handle = idle.pop()
        except IndexError:
            handle = self._open_lock(name)
        fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(handle, fcntl.LOCK_UN)
            idle.append(handle)

    def _open_lock(self, name: str) -> int:
        try:
            return os.open(self._locks / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            what = f"The store {self.label} cannot be written: {error.strerror}."
            raise StoreError(what, hint="Check permissions and free space.") from error

    @contextmanager
    def _translated(self) -> Generator[None]:
        try:
            yield
        except LakewardError:
            raise
        except sqlite3.Error as error:
            raise _translate(error, self.label) from error


def _translate(error: sqlite3.Error, label: str) -> StoreError:
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


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        what = f"The directory {path} cannot be made: {error.strerror}."
        raise StoreError(what, hint="Check the path and its permissions.") from error
