"""Records of how long reads of tables took, for service levels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lakeward.log.database import Session
from lakeward.log.statement import Statement, insertion
from lakeward.log.tables import query

_INSERT = insertion(query, "")
_TOOK = Statement(
    "SELECT took_ms FROM lakeward_query WHERE table_id = :table_id AND at_ms >= :since"
)
_PRUNE = Statement("DELETE FROM lakeward_query WHERE at_ms < :before")


class QueryRow(NamedTuple):
    """A read of a table that ended at `at_ms` and took `took_ms` milliseconds."""

    table_id: int
    at_ms: int
    took_ms: int


def insert(session: Session, rows: Sequence[QueryRow]) -> None:
    """Insert records of reads."""
    session.many(_INSERT, [row._asdict() for row in rows])


def took(session: Session, table_id: int, since: int) -> list[int]:
    """Return the milliseconds that each read of a table took, for reads that ended since a time."""
    rows = session.rows(_TOOK, {"table_id": table_id, "since": since})
    return [int(row[0]) for row in rows]


def prune(session: Session, before: int) -> None:
    """Delete the records of reads that ended before a time."""
    session.run(_PRUNE, {"before": before})
