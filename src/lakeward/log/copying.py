"""Reads and writes the rows of whole log tables, for backups, exports and imports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from lakeward.log import tables
from lakeward.log.database import Session
from lakeward.log.statement import Statement

_LEFT_OUT: Final = (
    tables.store,
    tables.lock,
    tables.lock_wait,
    tables.claim,
    tables.unrecorded,
)
_COPIED: Final = {t.name: t for t in tables.ALL if t not in _LEFT_OUT}
COPIED: Final = tuple(_COPIED)
"""The names of the log tables that are copied: all but those of locks, of claims, of unrecorded
files, and of the settings of the store itself."""


def columns(table: str) -> dict[str, bool]:
    """Return the columns of a log table; True for integer columns, False for text columns."""
    return {name: name not in _COPIED[table].texts for name in _COPIED[table].columns}


def count(session: Session, table: str) -> int:
    """Return the number of rows of a log table."""
    return int(session.row(Statement(f"SELECT count(*) FROM {_COPIED[table].name}"))[0])  # noqa: S608  our names


def chunks(session: Session, table: str) -> Iterator[Sequence[Any]]:
    """Yield all rows of a log table in chunks."""
    found = _COPIED[table]
    return session.stream(Statement(f"SELECT {', '.join(found.columns)} FROM {found.name}"))  # noqa: S608  our names


def insert(session: Session, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
    """Insert rows into a log table."""
    session.bulk(table, list(columns(table)), rows)
