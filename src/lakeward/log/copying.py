"""Rows of whole log tables, read and written for backups, exports and imports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from lakeward.log import tables
from lakeward.log.database import Session
from lakeward.log.statement import Statement

_LEFT_OUT: Final = (tables.store, tables.lock, tables.lock_wait, tables.claim)
_COPIED: Final = {t.name: t for t in tables.ALL if t not in _LEFT_OUT}
COPIED: Final = tuple(_COPIED)
"""The log tables that are copied: all but locks and claims, and what belongs to one store."""


def columns(table: str) -> dict[str, bool]:
    """The columns of a log table, and whether each holds whole numbers; the others hold text."""
    return {name: name not in _COPIED[table].texts for name in _COPIED[table].columns}


def count(session: Session, table: str) -> int:
    """The number of rows of a log table."""
    return int(session.row(Statement(f"SELECT count(*) FROM {_COPIED[table].name}"))[0])  # noqa: S608  our names


def chunks(session: Session, table: str) -> Iterator[Sequence[Any]]:
    """All rows of a log table, some at a time."""
    found = _COPIED[table]
    return session.stream(Statement(f"SELECT {', '.join(found.columns)} FROM {found.name}"))  # noqa: S608  our names


def insert(session: Session, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
    """Insert rows into a log table."""
    session.bulk(table, list(columns(table)), rows)
