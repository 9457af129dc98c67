"""Opens a store by the path or URL that a user gave."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from lakeward.errors import InvalidInput, LakeNotFound, StoreError
from lakeward.log.database import Database
from lakeward.log.drivers.nearby import STORE_FILE
from lakeward.log.drivers.postgres import PostgresDatabase
from lakeward.log.drivers.sqlite import SqliteDatabase
from lakeward.log.drivers.sqlite_readonly import ReadOnlySqliteDatabase, why_read_only
from lakeward.log.migrations import check_current, migrate
from lakeward.log.tables import store

_ASKED: Final = "read_only=True"


def connect(target: str | Path, *, create: bool = True, read_only: bool | None = False) -> Database:
    """Open the store in a directory (SQLite) or at a PostgreSQL URL, and migrate its schema.

    Without `create`, raise `LakeNotFound` for a missing store, and write nothing. With `read_only`
    None, open an existing store read-only if this user may not write to it.
    """
    text = str(target)
    if text.startswith(("postgresql://", "postgres://", "postgresql+psycopg://")):
        database = _postgres(text, read_only=read_only)
    elif "://" in text and not text.startswith("file://"):
        what = f"{text.split('://')[0]}:// is not a place for a log."
        raise InvalidInput(what, hint="Use a directory or a postgresql:// URL.")
    else:
        path = Path(text.removeprefix("file://")).expanduser().absolute() / STORE_FILE
        database = _sqlite(path, create=create, read_only=read_only)
    try:
        if not create and not database.has_table(store.name):
            raise _missing(database)
        if database.read_only is None:
            migrate(database)
        else:
            check_current(database)
    except BaseException:
        database.close()
        raise
    return database


def _sqlite(path: Path, *, create: bool, read_only: bool | None) -> Database:
    reason = _ASKED if read_only else None
    try:
        if read_only is None and path.exists():
            reason = why_read_only(path)
        if reason is None:
            return SqliteDatabase(path, create=create)
        return ReadOnlySqliteDatabase(path, reason)
    except OSError as error:
        what = f"The store {path} cannot be opened: {error.strerror or error}."
        raise StoreError(what, hint="Check the path and its permissions.") from error


def _postgres(url: str, *, read_only: bool | None) -> Database:
    database = PostgresDatabase(url, read_only=_ASKED if read_only else None)
    if read_only is None:
        try:
            if database.has_table(store.name):
                database.read_only = database.why_read_only()
        finally:
            # Only new connections are read-only, so close those that are open.
            database.close()
    return database


def _missing(database: Database) -> LakeNotFound:
    what = f"There is no lake in {database.label}."
    hint = "Check the name. To make a lake there, run `lakeward init`, or lw.open(...) with"
    return LakeNotFound(what, hint=f"{hint} create=True.")
