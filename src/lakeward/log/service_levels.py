"""Service levels, and what the log says of the time that work took."""

from __future__ import annotations

from typing import Any

from lakeward.log.codec import dumps, info_of, loads
from lakeward.log.database import Session
from lakeward.log.statement import Statement, insertion
from lakeward.log.tables import service_level

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
_LAST_BEFORE = Statement(
    """SELECT timestamp_ms, transaction_id, operation, actor, info FROM lakeward_commit
    WHERE table_id = :table_id AND timestamp_ms < :since ORDER BY version DESC LIMIT 100"""
)
_TOOK = Statement(
    """SELECT t.ended_ms - t.opened_ms, (SELECT sum(f.row_count) FROM lakeward_file f
        WHERE f.table_id = c.table_id AND f.added_version = c.version)
    FROM lakeward_commit c JOIN lakeward_transaction t ON t.transaction_id = c.transaction_id
    WHERE c.table_id = :table_id AND c.timestamp_ms >= :since AND t.ended_ms IS NOT NULL"""
)
_JOBS = Statement(
    """SELECT ended_ms - started_ms FROM lakeward_job
    WHERE table_name = :name AND started_ms >= :since AND ended_ms IS NOT NULL"""
)
_RUNS = Statement(
    """SELECT ended_ms - started_ms, state FROM lakeward_run
    WHERE pipeline = :name AND started_ms >= :since AND ended_ms IS NOT NULL"""
)


def put(session: Session, name: str, body: dict[str, Any], actor: str, at_ms: int) -> None:
    """Declare a service level, in the place of an earlier one of the same name."""
    params = {"name": name, "body": dumps(body), "actor": actor, "set_ms": at_ms}
    session.run(_PUT, params)


def remove(session: Session, name: str) -> bool:
    """Remove a service level; return whether there was one."""
    return session.run(_REMOVE, {"name": name}) > 0


def every(session: Session) -> list[tuple[str, dict[str, Any], str, int]]:
    """Name, plain form, actor and time of each service level, by name."""
    return [(str(n), loads(b), str(a), int(at)) for n, b, a, at in session.rows(_ALL)]


def changed_since(session: Session, table_id: int, since: int) -> list[int]:
    """When data of a table was changed, from the last time before a moment on, ascending."""
    before = session.rows(_LAST_BEFORE, {"table_id": table_id, "since": since})
    after = session.rows(_CHANGED, {"table_id": table_id, "since": since})
    last = next((int(row[0]) for row in before if _changes_data(row)), None)
    found = [int(row[0]) for row in after if _changes_data(row)]
    return found if last is None else [last, *found]


def transactions(session: Session, table_id: int, since: int) -> list[tuple[int, int]]:
    """Milliseconds that each transaction on a table took, and rows that it brought."""
    rows = session.rows(_TOOK, {"table_id": table_id, "since": since})
    return [(int(took), int(count or 0)) for took, count in rows]


def jobs(session: Session, table: str, since: int) -> list[int]:
    """Milliseconds that each run of maintenance of a table took."""
    return [int(row[0]) for row in session.rows(_JOBS, {"name": table, "since": since})]


def runs(session: Session, pipeline: str, since: int) -> list[tuple[int, str]]:
    """Milliseconds that each run of a pipeline took, and its state."""
    rows = session.rows(_RUNS, {"name": pipeline, "since": since})
    return [(int(took), str(state)) for took, state in rows]


def _changes_data(row: Any) -> bool:
    _, own, operation, actor, info = row
    return info_of(own, operation, actor, info).data_change
