"""The log in one SQLite file: write-ahead log, every durable commit synced to disk.

SQLite admits one writer at a time and makes the others sleep and retry, which starves some of them
for hundreds of milliseconds. Writers therefore queue on a file lock first: the kernel wakes the
next one. SQLite's own lock still excludes programs that do not take the file lock.

Sessions are classes rather than generators, for speed: a commit opens several and waits for each.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import weakref
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from lakeward.errors import OutcomeUnknown, StoreError
from lakeward.log.database import Database, Params, Session
from lakeward.log.drivers.nearby import lake_not_found
from lakeward.log.drivers.sqlite_errors import raise_translated, translated
from lakeward.log.statement import Statement
from lakeward.model import progress
from lakeward.model.clock import now_ms

_BUSY_SECONDS: Final = 60.0
_TURNS: Final = 64
_CHUNK: Final = 10_000
_PAGES: Final = 1_000
WRITE_LOCK: Final = "write.lock"
_FULL: Final = "PRAGMA synchronous = FULL"
_NORMAL: Final = "PRAGMA synchronous = NORMAL"


class Connection(sqlite3.Connection):
    """A connection that detects writes of other connections."""

    _seen: int | None = None

    def has_changed(self) -> bool:
        """Return whether another connection wrote since the last call; False on the first call."""
        (found,) = self.execute("PRAGMA data_version").fetchone()
        before, self._seen = self._seen, found
        return before is not None and before != found


class SqliteDatabase(Database):
    """A SQLite file, created if it is missing and `create` is set."""

    dialect = "sqlite"
    patience_seconds = 2.0
    is_remote = False

    def __init__(self, path: Path, *, create: bool) -> None:
        self.path = path
        self._locks = path.parent / ".lakeward"
        self._idle: deque[Connection] = deque()
        self._handles: dict[str, deque[int]] = {}
        self._pid = os.getpid()
        self._forked: list[Any] = []
        self._watch()
        if not path.exists():
            if not create:
                raise lake_not_found(path.parent)
            _make_directory(path.parent)
        if self.read_only is None:
            _make_directory(self._locks)

    @property
    def label(self) -> str:
        """The file's path."""
        return str(self.path)

    @property
    def jdbc(self) -> dict[str, str] | None:
        """The JDBC URL of the file, with the same busy timeout as in this process."""
        busy_ms = round(_BUSY_SECONDS * 1000)
        return {"uri": f"jdbc:sqlite:{self.path}", "jdbc.busy_timeout": str(busy_ms)}

    def read(self) -> AbstractContextManager[Session]:
        """Open a session that reads one snapshot of the file."""
        return _Reading(self)

    def write(self, *, durable: bool = True) -> AbstractContextManager[Session]:
        """Open a session that writes; it first waits for its turn as the only writer."""
        return _Writing(self, durable=durable)

    @contextmanager
    def turn(self, table_id: int) -> Generator[None]:
        """Hold the lock to publish a table, among the processes of this host."""
        name = f"turn-{table_id % _TURNS}.lock"
        handle = self.lock(name)
        try:
            yield
        finally:
            self.unlock(name, handle)

    def clock_ms(self, session: Session) -> int:  # noqa: ARG002  the file lives on this host
        """Return the time of this host, on which all users of the file are."""
        return now_ms()

    def place(self, session: Session) -> str:  # noqa: ARG002  the file is the database
        """Return the file's path with symbolic links resolved."""
        return os.path.realpath(self.path)

    def has_table(self, name: str) -> bool:
        """Return whether the file has a table of this name."""
        statement = Statement("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = :name")
        with self.read() as session:
            return session.row(statement, {"name": name}) is not None

    def lock_schema(self, session: Session) -> None:
        """Do nothing: there is only one write session at a time."""

    def after_import(self, session: Session) -> None:
        """Do nothing: SQLite chooses the next free id by itself."""

    def dialect_ddl(self, statement: str) -> str:
        """Translate a migration's statement into SQLite's dialect."""
        return statement.format(identity="INTEGER PRIMARY KEY", clustered=" WITHOUT ROWID")

    def check(self) -> list[str]:
        """Run SQLite's integrity check; return the problems found."""
        with self._connection() as connection:
            found = [row[0] for row in connection.execute("PRAGMA integrity_check(20)")]
        return [] if found == ["ok"] else found

    def copy_to(self, target: Path) -> None:
        """Copy the whole file while others write."""
        with self._connection() as connection:
            copy = sqlite3.connect(target)
            try:
                # One snapshot for all parts: a write of others would start the copy from the
                # beginning.
                connection.execute("BEGIN")
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
                connection.backup(copy, pages=_PAGES, progress=_count_pages)
                copy.execute("PRAGMA journal_mode = DELETE")
            finally:
                copy.close()
                connection.rollback()

    def close(self) -> None:
        """Close idle connections."""
        _close(self._idle, self._handles, self._pid)

    def _watch(self) -> None:
        """Arrange that idle connections are closed when this object is garbage-collected."""
        self._finalizer = weakref.finalize(self, _close, self._idle, self._handles, self._pid)

    def _forget_parent(self) -> None:
        """In a forked child, discard the parent's connections and locks without closing them."""
        self._finalizer.detach()
        self._forked.append((self._idle, self._handles))
        self._idle, self._handles = deque(), {}
        self._pid = os.getpid()
        self._watch()

    @contextmanager
    def _connection(self) -> Generator[Connection]:
        """Yield a connection for use outside of sessions."""
        try:
            connection = self.borrow()
            try:
                yield connection
            except BaseException as error:
                self.give_back(connection, error)
                raise
            self.give_back(connection, None)
        except sqlite3.Error as error:
            raise translated(error, self.label) from error

    def borrow(self) -> Connection:
        """Return an idle connection, or open one; `give_back` must follow."""
        if self._pid != os.getpid():
            self._forget_parent()
        try:
            return self._idle.pop()
        except IndexError:
            return self._connect()

    def give_back(self, connection: Connection, error: BaseException | None) -> None:
        """Keep a connection for the next session, or close it after an error of the database."""
        if isinstance(error, sqlite3.Error | OutcomeUnknown):
            connection.close()
        else:
            self._idle.append(connection)

    def _connect(self) -> Connection:
        connection = sqlite3.connect(
            self.path,
            timeout=_BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
            factory=Connection,
        )
        try:
            if not self.path.exists() or self.path.stat().st_size == 0:
                # Allows free pages to be released later. In a file that has tables this would
                # wait for the current writer.
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA temp_store = MEMORY")
        except BaseException:
            connection.close()
            raise
        return connection

    def lock(self, name: str) -> int:
        """Wait for a lock among the processes of this host; return the handle that holds it."""
        if self._pid != os.getpid():
            self._forget_parent()
        idle = self._handles.setdefault(name, deque())
        try:
            handle = idle.pop()
        except IndexError:
            handle = self._open_lock(name)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except BaseException:
            # The lock may have been taken; closing the file releases it.
            os.close(handle)
            raise
        return handle

    def unlock(self, name: str, handle: int) -> None:
        """Release a lock."""
        fcntl.flock(handle, fcntl.LOCK_UN)
        self._handles.setdefault(name, deque()).append(handle)

    def _open_lock(self, name: str) -> int:
        try:
            return os.open(self._locks / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            what = f"The store {self.label} cannot be written: {error.strerror}."
            raise StoreError(what, hint="Check permissions and free space.") from error


class _Session(Session):
    """A transaction on one SQLite connection."""

    dialect = "sqlite"
    bulk_from = 1

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def rows(self, statement: Statement, params: Params | None = None) -> list[Any]:
        return self._connection.execute(*statement.bind("sqlite", params or {})).fetchall()

    def row(self, statement: Statement, params: Params | None = None) -> Any:
        return self._connection.execute(*statement.bind("sqlite", params or {})).fetchone()

    def stream(self, statement: Statement, params: Params | None = None) -> Iterator[list[Any]]:
        cursor = self._connection.execute(*statement.bind("sqlite", params or {}))
        while chunk := cursor.fetchmany(_CHUNK):
            yield chunk

    def run(self, statement: Statement, params: Params | None = None) -> int:
        return self._connection.execute(*statement.bind("sqlite", params or {})).rowcount

    def many(self, statement: Statement, rows: Iterable[Params]) -> int:
        sql = statement.sql("sqlite")
        values = (statement.bind("sqlite", row)[1] for row in rows)
        return self._connection.executemany(sql, values).rowcount

    def bulk(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        self._connection.executemany(_insertion(table, tuple(columns)), rows)

    def script(self, sql: str) -> None:
        self._connection.execute(sql)


class _Reading:
    """A session that only reads."""

    __slots__ = ("_connection", "_database")

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    def __enter__(self) -> Session:
        try:
            self._connection = connection = self._database.borrow()
        except sqlite3.Error as error:
            raise translated(error, self._database.label) from error
        try:
            connection.execute("BEGIN")
        except BaseException as error:
            self._end(error)
            raise
        return _Session(connection)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        with suppress(sqlite3.Error):
            self._connection.execute("ROLLBACK")
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        self._database.give_back(self._connection, error)
        if error is not None:
            raise_translated(error, self._database.label)


class _Writing:
    """A session that writes: waits for the file lock, then runs a transaction."""

    __slots__ = ("_connection", "_database", "_durable", "_handle")

    def __init__(self, database: SqliteDatabase, *, durable: bool) -> None:
        self._database = database
        self._durable = durable

    def __enter__(self) -> Session:
        self._handle = self._database.lock(WRITE_LOCK)
        try:
            self._connection = connection = self._database.borrow()
        except BaseException as error:
            self._database.unlock(WRITE_LOCK, self._handle)
            raise_translated(error, self._database.label)
            raise
        try:
            connection.execute(_FULL if self._durable else _NORMAL)
            connection.execute("BEGIN IMMEDIATE")
            if self._durable:
                self._database.is_busy = connection.has_changed()
        except BaseException as error:
            self._end(error)
            raise
        return _Session(connection)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
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
        try:
            self._database.give_back(self._connection, error)
        finally:
            self._database.unlock(WRITE_LOCK, self._handle)
        if error is not None:
            raise_translated(error, self._database.label)


@cache
def _insertion(table: str, columns: tuple[str, ...]) -> str:
    marks = ",".join("?" * len(columns))
    return f"INSERT INTO {table} ({','.join(columns)}) VALUES ({marks})"  # noqa: S608  our own names


def _close(idle: deque[Connection], handles: dict[str, deque[int]], pid: int) -> None:
    """Close connections and lock files, unless they were opened by the parent of this process."""
    if pid != os.getpid():
        return
    while idle:
        idle.pop().close()
    for waiting in handles.values():
        while waiting:
            os.close(waiting.pop())


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        what = f"The directory {path} cannot be made: {error.strerror}."
        raise StoreError(what, hint="Check the path and its permissions.") from error


def _count_pages(status: int, remaining: int, total: int) -> None:
    """Report how many pages of the store are copied."""
    del status
    progress.report(total - remaining, total)
