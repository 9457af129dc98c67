"""Declared service levels, and how long transactions, maintenance and pipelines took."""

from __future__ import annotations

from typing import Any

from lakeward.log.codec import dumps, info_of, loads
from lakeward.log.database import Session
from lakeward.log.statement import Statement, insertion
from lakeward.log.tables import service_level
from lakeward.model.arguments import LARGEST

_PAGE = 100
_PUT = insertion(
    service_level,
    "ON CONFLICT (name) DO UPDATE SET body = excluded.body, actor = excluded.actor,"
    " set_ms = excluded.set_ms",
)
_REMOVE = Statement("DELETE FROM lakeward_service_level WHERE name = :name")
_ALL = Statement("SELECT name, body, actor, set_ms FROM lakeward_service_level ORDER BY name")
_CHANGED = Statement(
    """SELECT timestamp_ms, transaction_id, operation, actor, info FROM lakeward_commit
    WHERE table_id = :table_id AND timestamp_ms >= :since ORDER BY version"""
)
_NEWEST_FIRST = Statement(
    """SELECT timestamp_ms, transaction_id, operation, actor, info, version FROM lakeward_commit
    WHERE table_id = :table_id AND timestamp_ms < :before AND version <= :version
    ORDER BY version DESC LIMIT :page"""
)
_TOOK = Statement(
    """SELECT t.ended_ms - t.opened_ms, (SELECT sum(f.row_count) FROM lakeward_file f
        WHERE f.table_id = c.table_id AND f.added_version = c.version)
    FROM lakeward_commit c JOIN lakeward_transaction t ON t.transaction_id = c.transaction_id
    WHERE c.table_id = :table_id AND c.timestamp_ms >= :since AND t.ended_ms IS NOT NULL"""
)
_JOBS = Statement(
    """SELECT ended_ms - started_ms, state FROM lakeward_job
    WHERE table_name = :name AND started_ms >= :since AND ended_ms IS NOT NULL"""
)
_RUNS = Statement(
    """SELECT ended_ms - started_ms, state FROM lakeward_run
    WHERE pipeline = :name AND started_ms >= :since AND ended_ms IS NOT NULL"""
)


def put(session: Session, name: str, body: dict[str, Any], actor: str, at_ms: int) -> None:
    """Declare a service level; replace an earlier one of the same name."""
    params = {"name": name, "body": dumps(body), "actor": actor, "set_ms": at_ms}
    session.run(_PUT, params)


def remove(session: Session, name: str) -> bool:
    """Remove a service level; return whether there was one."""
    return session.run(_REMOVE, {"name": name}) > 0


def every(session: Session) -> list[tuple[str, dict[str, Any], str, int]]:
    """Return all service levels, ordered by name: name, body, actor, time of declaration."""
    return [(str(n), loads(b), str(a), int(at)) for n, b, a, at in session.rows(_ALL)]


def changed_since(session: Session, table_id: int, since: int) -> list[int]:
    """Return the times of the last commit before `since` that changed data, and of later ones."""
    after = session.rows(_CHANGED, {"table_id": table_id, "since": since})
    last, _ = last_change(session, table_id, before_ms=since)
    found = [int(row[0]) for row in after if _changes_data(row)]
    return found if last is None else [last, *found]


def last_change(
    session: Session, table_id: int, *, version: int = LARGEST, before_ms: int = LARGEST
) -> tuple[int | None, int | None]:
    """Return the time of the last commit that changed data, and of the oldest commit read for it.

    Only commits up to a version and before a time count. The first is None if none of them changed
    data, and both are None if there are none.
    """
    oldest: int | None = None
    while True:
        params = {"table_id": table_id, "before": before_ms, "version": version, "page": _PAGE}
        rows = list(session.rows(_NEWEST_FIRST, params))
        if not rows:
            return None, oldest
        oldest = int(rows[-1][0])
        found = next((int(row[0]) for row in rows if _changes_data(row)), None)
        if found is not None:
            return found, oldest
        version = int(rows[-1][5]) - 1


def transactions(session: Session, table_id: int, since: int) -> list[tuple[int, int]]:
    """Return the duration in ms and the added rows of each transaction on a table since a time."""
    rows = session.rows(_TOOK, {"table_id": table_id, "since": since})
    return [(int(took), int(count or 0)) for took, count in rows]


def jobs(session: Session, table: str, since: int) -> list[tuple[int, str]]:
    """Return the duration in ms and the state of each maintenance run of a table since a time."""
    rows = session.rows(_JOBS, {"name": table, "since": since})
    return [(int(took), str(state)) for took, state in rows]


def runs(session: Session, pipeline: str, since: int) -> list[tuple[int, str]]:
    """Return the duration in ms and the state of each run of a pipeline since a time."""
    rows = session.rows(_RUNS, {"name": pipeline, "since": since})
    return [(int(took), str(state)) for took, state in rows]


def _changes_data(row: Any) -> bool:
    _, own, operation, actor, info = row[:5]
    return info_of(own, operation, actor, info).data_change
