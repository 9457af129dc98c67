"""Measurements of the expectations of tables: one row for each expectation and version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lakeward.log.codec import dumps, loads
from lakeward.log.database import Session
from lakeward.log.statement import Statement, insertion
from lakeward.log.tables import quality

_PUT = insertion(
    quality,
    "ON CONFLICT (table_id, name, version)"
    " DO UPDATE SET measured_ms = excluded.measured_ms, body = excluded.body",
)
_SERIES = Statement(
    """SELECT version, measured_ms, body FROM lakeward_quality
    WHERE table_id = :table_id AND name = :name AND version <= :until
    ORDER BY version DESC LIMIT :limit"""
)

_ONE = Statement(
    """SELECT version, measured_ms, body FROM lakeward_quality
    WHERE table_id = :table_id AND name = :name AND version = :version"""
)


@dataclass(frozen=True, slots=True)
class QualityRow:
    """A measurement; `body` has the value and what later measurements need from it."""

    version: int
    measured_ms: int
    body: dict[str, Any]


def put(session: Session, table_id: int, name: str, row: QualityRow) -> None:
    """Record a measurement; replace an earlier one of the same expectation and version."""
    session.run(
        _PUT,
        {
            "table_id": table_id,
            "name": name,
            "version": row.version,
            "measured_ms": row.measured_ms,
            "body": dumps(row.body),
        },
    )


def one(session: Session, table_id: int, name: str, version: int) -> QualityRow | None:
    """Return the measurement of an expectation for exactly this version, or None."""
    row = session.row(_ONE, {"table_id": table_id, "name": name, "version": version})
    return None if row is None else QualityRow(int(row[0]), int(row[1]), loads(row[2]))


def series(session: Session, table_id: int, name: str, until: int, limit: int) -> list[QualityRow]:
    """Return the newest measurements of an expectation up to a version, oldest first."""
    params = {"table_id": table_id, "name": name, "until": until, "limit": limit}
    rows = [QualityRow(int(v), int(at), loads(b)) for v, at, b in session.rows(_SERIES, params)]
    return rows[::-1]
