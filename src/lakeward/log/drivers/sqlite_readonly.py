"""A SQLite store that is only read, by a user without permission to write the file or directory.

A reader of a write-ahead log needs the files `-wal` and `-shm`. While a writer has the store open
these files exist, and SQLite reads through them, without writing. When the last writer closes the
store, the files are deleted, and SQLite cannot create them in a directory without write permission.
Then the database file holds all commits, and is opened with `immutable=1` under a shared lock on
the file lock of writers: no writer changes the database during the session. If a program without
that lock changes the file, the session ends with an error, and its results are refused.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Final, TypeAlias

from lakeward.errors import StoreError, StoreUnavailable
from lakeward.log.database import Session
from lakeward.log.drivers.sqlite import WRITE_LOCK, Connection, SqliteDatabase

_BUSY_SECONDS: Final = 60.0
_PATIENCE_SECONDS: Final = 1.0
"""How long opening is retried while a writer opens or closes the store."""
_Stamp: TypeAlias = tuple[int, int, int]


class _ReadOnlyConnection(Connection):
    """A connection that cannot write; if the file was opened as immutable, it holds a lock."""

    stamp: _Stamp | None = None
    """Inode, size and modification time of the file when it was opened as immutable."""
    lock: int | None = None


class ReadOnlySqliteDatabase(SqliteDatabase):
    """An existing SQLite file that is never changed.

    Args:
        path: The file.
        reason: Why the file is only read.
    """

    def __init__(self, path: Path, reason: str) -> None:
        self.read_only = reason
        super().__init__(path, create=False)

    def write(self, *, durable: bool = True) -> AbstractContextManager[Session]:
        """Raise `ReadOnlyLake`."""
        self.check_writable()
        return super().write(durable=durable)

    @contextmanager
    def turn(self, table_id: int) -> Generator[None]:
        """Raise `ReadOnlyLake`."""
        self.check_writable()
        with super().turn(table_id):
            yield

    def wait_for_writers(self) -> None:
        """Wait until the commit under way is done: writers hold the file lock until then."""
        handle = self._shared_lock()
        if handle is not None:
            os.close(handle)

    def borrow(self) -> Connection:
        """Return a connection through which the file could be read; retry for a second."""
        if self._pid != os.getpid():
            self._forget_parent()
        until = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                return self._beside_writers() if self._has_write_ahead_log() else self._alone()
            except sqlite3.OperationalError as error:
                # A writer may just have opened or closed the store.
                if time.monotonic() > until or not os.access(self.path, os.R_OK):
                    raise self._unreadable(error) from error
                time.sleep(0.01)

    def give_back(self, connection: Connection, error: BaseException | None) -> None:
        """Keep a connection for the next session; close one that opened the file as immutable."""
        if not isinstance(connection, _ReadOnlyConnection) or connection.stamp is None:
            super().give_back(connection, error)
            return
        has_changed = connection.stamp != self._stamp()
        self._end(connection)
        if has_changed:
            what = f"The store {self.label} was changed by another program while it was read."
            raise StoreUnavailable(what, hint="Try again.") from error

    def _beside_writers(self) -> Connection:
        """Return a connection that reads the write-ahead log; its files exist while it is open."""
        try:
            return self._idle.pop()
        except IndexError:
            return self._open("mode=ro")

    def _alone(self) -> Connection:
        """Open the file as immutable; no Lakeward writer changes it until it is given back."""
        lock = self._shared_lock()
        stamp = self._stamp()
        try:
            if self._is_filled("-wal") or self._is_filled("-journal"):
                message = "unable to open database file: it has a log without an index"
                raise sqlite3.OperationalError(message)
            connection = self._open("immutable=1")
        except BaseException:
            if lock is not None:
                os.close(lock)
            raise
        connection.stamp, connection.lock = stamp, lock
        return connection

    def _open(self, mode: str) -> _ReadOnlyConnection:
        connection = sqlite3.connect(
            f"{self.path.as_uri()}?{mode}",
            uri=True,
            timeout=_BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
            factory=_ReadOnlyConnection,
        )
        try:
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
        except BaseException:
            connection.close()
            raise
        return connection

    def _end(self, connection: _ReadOnlyConnection) -> None:
        connection.close()
        if connection.lock is not None:
            os.close(connection.lock)

    def _shared_lock(self) -> int | None:
        """Take the writers' file lock, shared with other readers; None if there is none to take."""
        try:
            handle = os.open(self._locks / WRITE_LOCK, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_SH)
        except OSError:
            # A file system without locks.
            os.close(handle)
            return None
        except BaseException:
            os.close(handle)
            raise
        return handle

    def _has_write_ahead_log(self) -> bool:
        return all(self._beside(end).exists() for end in ("-wal", "-shm"))

    def _is_filled(self, end: str) -> bool:
        with suppress(OSError):
            return self._beside(end).stat().st_size > 0
        return False

    def _beside(self, end: str) -> Path:
        return self.path.with_name(self.path.name + end)

    def _stamp(self) -> _Stamp:
        with suppress(OSError):
            found = self.path.stat()
            return found.st_ino, found.st_size, found.st_mtime_ns
        return 0, 0, 0

    def _unreadable(self, error: sqlite3.Error) -> BaseException:
        if not self._is_filled("-wal") or self._has_write_ahead_log():
            return error
        what = (
            f"The store {self.label} has commits in its -wal file and no -shm file to read it by."
        )
        hint = "Open the lake once as a user who may write, or copy both files with it."
        return StoreError(what, hint=hint)


def why_read_only(path: Path) -> str | None:
    """Return why this user cannot write to a SQLite store; None if they can, or it is missing."""
    locks = path.parent / ".lakeward"
    beside = [Path(f"{path}{end}") for end in ("-wal", "-shm")]
    for place in (path, path.parent, *beside, locks, locks / WRITE_LOCK):
        if place.exists() and not os.access(place, os.W_OK, effective_ids=_EFFECTIVE):
            kind = "a read-only file system" if _is_mounted_read_only(place) else "no permission"
            return f"{place} cannot be written ({kind})"
    return None


def _is_mounted_read_only(place: Path) -> bool:
    return bool(os.statvfs(place).f_flag & os.ST_RDONLY)


_EFFECTIVE: Final = os.access in os.supports_effective_ids
