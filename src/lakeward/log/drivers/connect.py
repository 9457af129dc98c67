"""Opens a store by the name that a user gave."""

from __future__ import annotations

from pathlib import Path

from lakeward.errors import InvalidInput, LakeNotFound
from lakeward.log.database import Database
from lakeward.log.drivers.nearby import STORE_FILE
from lakeward.log.drivers.postgres import PostgresDatabase
from lakeward.log.drivers.sqlite import SqliteDatabase
from lakeward.log.migrations import migrate
from lakeward.log.tables import store


def connect(target: str | Path, *, create: bool = True) -> Database:
    """Open the store in a directory (SQLite) or at a PostgreSQL URL, and migrate its schema.

    Without `create`, a missing store is `LakeNotFound`, and nothing is written.
    """
    database: Database
    text = str(target)
    if text.startswith(("postgresql://", "postgres://", "postgresql+psycopg://")):
        database = PostgresDatabase(text)
    elif "://" in text and not text.startswith("file://"):
        what = f"{text.split('://')[0]}:// is not a place for a log."
        raise InvalidInput(what, hint="Use a directory or a postgresql:// URL.")
    else:
        path = Path(text.removeprefix("file://")).expanduser().absolute()
        database = SqliteDatabase(path / STORE_FILE, create=create)
    try:
        if not create and not database.has_table(store.name):
            what = f"There is no lake in {database.label}."
            hint = "Check the name. To make a lake there, run `lakeward init`, or lw.open(...) with"
            raise LakeNotFound(what, hint=f"{hint} create=True.")
        migrate(database)
    except BaseException:
        database.close()
        raise
    return database
