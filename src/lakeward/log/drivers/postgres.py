"""The log in PostgreSQL, for many hosts.

Read sessions use REPEATABLE READ, so that they see one state. Write sessions use READ COMMITTED and
lock the head rows, so that validation sees the current versions.
"""

from __future__ import annotations

import os
import time
import weakref
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

from lakeward.errors import (
    InvalidInput,
    LakewardError,
    MissingExtra,
    OutcomeUnknown,
    StoreCorrupt,
    StoreError,
    StoreUnavailable,
)
from lakeward.log.database import Database, Params, Session, Waiter
from lakeward.log.drivers.notices import Notices, NoticeWaiter
from lakeward.log.statement import Statement

if TYPE_CHECKING:
    import psycopg

_CHUNK: Final = 10_000
_PORT: Final = 5432
_TURN_CLASS: Final = 0x1A4E
_CURSORS: Final = count()
_PLACE = Statement(
    """SELECT 'postgresql:' || (SELECT system_identifier FROM pg_control_system())
    || '/' || (SELECT oid FROM pg_database WHERE datname = current_database())
    || '/' || current_schema()"""
)
_RIGHTS = Statement(
    """SELECT pg_is_in_recovery(), current_setting('default_transaction_read_only') = 'on',
    has_table_privilege('lakeward_head', 'INSERT')
    AND has_table_privilege('lakeward_head', 'UPDATE')"""
)
_WRITERS = Statement(
    """SELECT virtualtransaction FROM pg_locks
    WHERE database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND relation = to_regclass('lakeward_head') AND mode IN ('RowShareLock', 'RowExclusiveLock')"""
)
_CLOCK = Statement("SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)")


class _Session(Session):
    """A transaction on one PostgreSQL connection."""

    dialect = "postgresql"
    bulk_from = 100

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def rows(self, statement: Statement, params: Params | None = None) -> list[Any]:
        return self._execute(statement, params).fetchall()

    def row(self, statement: Statement, params: Params | None = None) -> Any:
        return self._execute(statement, params).fetchone()

    def stream(self, statement: Statement, params: Params | None = None) -> Iterator[list[Any]]:
        cursor = self._connection.cursor(f"lakeward_{next(_CURSORS)}")
        try:
            cursor.execute(*statement.bind("postgresql", params or {}))
            while chunk := cursor.fetchmany(_CHUNK):
                yield chunk
        finally:
            try:
                cursor.close()
            finally:
                # If the first call lost the connection, only a second one closes the cursor.
                cursor.close()

    def run(self, statement: Statement, params: Params | None = None) -> int:
        return self._execute(statement, params).rowcount

    def many(self, statement: Statement, rows: Iterable[Params]) -> int:
        sql = statement.sql("postgresql")
        with self._connection.cursor() as cursor:
            cursor.executemany(sql, [statement.bind("postgresql", row)[1] for row in rows])
            return cursor.rowcount

    def bulk(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        sql = f"COPY {table} ({','.join(columns)}) FROM STDIN"
        with self._connection.cursor() as cursor, cursor.copy(sql) as copy:
            for row in rows:
                copy.write_row(row)

    def script(self, sql: str) -> None:
        self._connection.execute(sql)

    def _execute(self, statement: Statement, params: Params | None) -> psycopg.Cursor[Any]:
        sql, values = statement.bind("postgresql", params or {})
        return self._connection.execute(sql, values)


class PostgresDatabase(Database):
    """A PostgreSQL database, by URL."""

    dialect = "postgresql"
    patience_seconds = 30.0
    is_remote = True

    def __init__(self, url: str, *, read_only: str | None = None) -> None:
        self.read_only = read_only
        self._driver = _driver()
        self._url = _checked(url.replace("postgresql+psycopg://", "postgresql://", 1))
        self._notices = Notices()
        self._idle: deque[psycopg.Connection[Any]] = deque()
        self._pid = os.getpid()
        self._forked: list[Any] = []
        self._watch()

    @property
    def label(self) -> str:
        """Host, port and database; never the password."""
        parts = urlsplit(self._url)
        port = f":{parts.port}" if parts.port else ""
        return f"postgresql://{parts.hostname or ''}{port}{parts.path}"

    @property
    def jdbc(self) -> dict[str, str] | None:
        """The server's JDBC URL and properties; None for a Unix socket, which Java cannot use."""
        target = self._driver.conninfo.conninfo_to_dict(self._url)
        host = str(target.get("host", "localhost")).split(",")[0]
        if host.startswith("/"):
            return None
        port = str(target.get("port", _PORT)).split(",")[0]
        name = quote(str(target.get("dbname", target.get("user", ""))), safe="")
        passed = {k: str(target[k]) for k in ("user", "password", "sslmode") if k in target}
        properties = {f"jdbc.{key}": value for key, value in passed.items()}
        return {"uri": f"jdbc:postgresql://{host}:{port}/{name}", **properties}

    @contextmanager
    def read(self) -> Generator[Session]:
        """Open a session that reads one snapshot of the database."""
        with self._translated(), self._connection() as connection:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            try:
                yield _Session(connection)
            finally:
                with suppress(self._driver.Error):
                    connection.execute("ROLLBACK")

    @contextmanager
    def write(self, *, durable: bool = True) -> Generator[Session]:
        """Open a session under READ COMMITTED; callers lock rows where order matters."""
        self.check_writable()
        with self._translated(), self._connection() as connection:
            connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
            if not durable:
                connection.execute("SET LOCAL synchronous_commit = off")
            session = _Session(connection)
            try:
                yield session
            except BaseException:
                with suppress(self._driver.Error):
                    connection.execute("ROLLBACK")
                raise
            self._commit(connection)
            if session.is_placed:
                with suppress(self._driver.Error):
                    self._notices.committed(connection)

    def waiter(self) -> Waiter:
        """Return a waiter that notifications of commits wake."""
        with self._translated():
            return NoticeWaiter(self._connect(), self._driver, self._translate)

    @contextmanager
    def turn(self, table_id: int) -> Generator[None]:
        """Hold the lock to publish a table, among all users of the database."""
        self.check_writable()
        key = {"class": _TURN_CLASS, "key": table_id % 2**31}
        with self._translated(), self._connection() as connection:
            session = _Session(connection)
            session.row(Statement("SELECT pg_advisory_lock(:class, :key)"), key)
            try:
                yield
            finally:
                session.row(Statement("SELECT pg_advisory_unlock(:class, :key)"), key)

    def wait_for_writers(self) -> None:
        """Wait until the transactions that now hold locks on heads end; every commit holds some."""
        with self.read() as session:
            left = {row[0] for row in session.rows(_WRITERS)}
        while left:
            time.sleep(0.01)
            with self.read() as session:
                left &= {row[0] for row in session.rows(_WRITERS)}

    def why_read_only(self) -> str | None:
        """Return why this role cannot write to the store; None if it can."""
        with self.read() as session:
            standby, is_read_only, may_write = session.row(_RIGHTS)
        if standby:
            return "the server is a standby"
        if is_read_only:
            return "default_transaction_read_only is on"
        return None if may_write else "the role may not write the store's tables"

    def clock_ms(self, session: Session) -> int:
        """Return the server's time."""
        return int(session.row(_CLOCK)[0])

    def place(self, session: Session) -> str:
        """Return the ids of cluster, database and schema, which survive a move or rename."""
        return str(session.row(_PLACE)[0])

    def has_table(self, name: str) -> bool:
        """Return whether a table of this name is on the search path."""
        with self.read() as session:
            row = session.row(Statement("SELECT to_regclass(:name)"), {"name": name})
        return row[0] is not None

    def lock_schema(self, session: Session) -> None:
        """Wait for other migrations, and exclude them until the session ends."""
        session.row(Statement("SELECT pg_advisory_xact_lock(:key)"), {"key": _TURN_CLASS})

    def after_import(self, session: Session) -> None:
        """Advance the sequences of table ids and policy ids past the imported ids."""
        for table, column in (("lakeward_head", "table_id"), ("lakeward_policy", "policy_id")):
            if session.row(Statement("SELECT to_regclass(:name)"), {"name": table})[0] is None:
                continue
            session.script(
                f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'),"  # noqa: S608  our names
                f" (SELECT coalesce(max({column}), 0) + 1 FROM {table}), false)"
            )

    def dialect_ddl(self, statement: str) -> str:
        """Translate a migration's statement into PostgreSQL's dialect."""
        identity = "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY"
        return statement.format(identity=identity, clustered="")

    def check(self) -> list[str]:
        """Return no problems: PostgreSQL has no integrity check."""
        return []

    def close(self) -> None:
        """Close idle connections."""
        _close(self._idle, self._pid)

    def _watch(self) -> None:
        """Arrange that idle connections are closed when this object is garbage-collected.

        A thread may give one back after `close`.
        """
        self._finalizer = weakref.finalize(self, _close, self._idle, self._pid)

    def _commit(self, connection: psycopg.Connection[Any]) -> None:
        try:
            connection.execute("COMMIT")
        except self._driver.Error as error:
            what = f"The store {self.label} did not answer a commit: {_one_line(error)}."
            raise OutcomeUnknown(what, hint="Ask again by transaction id.") from error

    @contextmanager
    def _connection(self) -> Generator[psycopg.Connection[Any]]:
        if self._pid != os.getpid():
            # A forked child must not touch its parent's connections, not even to close them.
            self._finalizer.detach()
            self._forked.append(self._idle)
            self._idle = deque()
            self._pid = os.getpid()
            self._watch()
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect()
        try:
            yield connection
        finally:
            if connection.closed or connection.info.transaction_status != 0:
                connection.close()
            else:
                self._idle.append(connection)

    def _connect(self) -> psycopg.Connection[Any]:
        connection = self._driver.connect(
            self._url, autocommit=True, connect_timeout=10, application_name="lakeward"
        )
        if self.read_only is not None:
            connection.execute("SET default_transaction_read_only = on")
        return connection

    @contextmanager
    def _translated(self) -> Generator[None]:
        try:
            yield
        except LakewardError:
            raise
        except self._driver.Error as error:
            raise self._translate(error) from error

    def _translate(self, error: Exception) -> StoreError:
        errors = self._driver.errors
        if isinstance(error, errors.UndefinedTable | errors.UndefinedColumn):
            what = f"The store {self.label} is not a Lakeward store: {_one_line(error)}."
            return StoreCorrupt(what, hint="Restore a backup, or run `lakeward rebuild`.")
        if isinstance(error, self._driver.OperationalError | self._driver.InterfaceError):
            what = f"The store {self.label} cannot be reached: {_one_line(error)}."
            return StoreUnavailable(what, hint="Check that the server runs, then try again.")
        return StoreError(f"The store {self.label} failed: {_one_line(error)}.")


def _close(idle: deque[psycopg.Connection[Any]], pid: int) -> None:
    """Close the idle connections of this process; those of a parent process stay open."""
    while idle and pid == os.getpid():
        with suppress(IndexError):  # another thread was quicker
            idle.pop().close()


def _checked(url: str) -> str:
    """Return the URL if it can be parsed; else raise an error that quotes no part of it."""
    try:
        _ = urlsplit(url).port
    except ValueError:
        what = "The PostgreSQL URL cannot be understood."
        hint = "Write special characters of the password as %2F, %3A, %40 and so on."
        raise InvalidInput(what, hint=hint) from None
    return url


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _driver() -> Any:
    try:
        import psycopg
    except ImportError as error:
        what = "A lake on PostgreSQL needs psycopg."
        raise MissingExtra(what, hint="Run: pip install 'lakeward[postgres]'.") from error
    return psycopg
