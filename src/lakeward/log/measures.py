"""Figures about a lake, for metrics; each is computed from the log by one query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from lakeward.log.database import Session
from lakeward.log.statement import Statement
from lakeward.model.file import LIVE

_FILES = Statement(
    """SELECT table_id, count(*), sum(size), sum(row_count) FROM lakeward_file
    WHERE removed_version = :live GROUP BY table_id"""
)
_OPERATIONS = Statement("SELECT operation, count(*) FROM lakeward_commit GROUP BY operation")
_STATES = Statement("SELECT state, count(*) FROM lakeward_transaction GROUP BY state")
_OPEN = Statement(
    """SELECT min(opened_ms), sum(CASE WHEN lease_until_ms < :now THEN 1 ELSE 0 END)
    FROM lakeward_transaction WHERE state = 'open'"""
)
_RUNS = Statement(
    """SELECT pipeline, state, count(*), max(ended_ms), sum(ended_ms - started_ms)
    FROM lakeward_run GROUP BY pipeline, state"""
)
_JOBS = Statement(
    """SELECT kind, CASE WHEN state = 'running' AND lease_until_ms < :now THEN 'interrupted'
        ELSE state END, count(*), max(ended_ms), sum(coalesce(ended_ms, started_ms) - started_ms)
    FROM lakeward_job GROUP BY 1, 2"""
)
_VIOLATIONS = Statement(
    "SELECT table_name, action, sum(row_count) FROM lakeward_violation GROUP BY table_name, action"
)
_WRITERS = Statement(
    """SELECT w.table_id, w.writer_id, w.epoch, c.timestamp_ms FROM lakeward_writer w
    LEFT JOIN lakeward_commit c
        ON c.transaction_id = w.transaction_id AND c.table_id = w.table_id"""
)
_COMMITTED = Statement(
    "SELECT timestamp_ms FROM lakeward_commit WHERE table_id = :table_id AND version = :version"
)
_SIZE: Final = {
    "sqlite": Statement(
        "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
    ),
    "postgresql": Statement(
        """SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c
        WHERE c.relkind = 'r'
        AND (starts_with(c.relname, 'lakeward') OR starts_with(c.relname, 'iceberg'))
        AND c.relnamespace = (SELECT relnamespace FROM pg_class
            WHERE oid = CAST('lakeward_head' AS regclass))"""
    ),
}


@dataclass(frozen=True, slots=True)
class Ended:
    """Runs of one pipeline or kind of job in one state: count, last end, total duration."""

    name: str
    state: str
    count: int
    last_ms: int | None
    took_ms: int


def live_files(session: Session) -> dict[int, tuple[int, int, int]]:
    """Return the numbers of files, bytes and rows in each table's newest version, by table id."""
    rows = session.rows(_FILES, {"live": LIVE})
    return {int(r[0]): (int(r[1]), int(r[2] or 0), int(r[3] or 0)) for r in rows}


def operations(session: Session) -> dict[str, int]:
    """Return the number of commits in the log by operation."""
    return {str(name): int(count) for name, count in session.rows(_OPERATIONS)}


def transactions(session: Session) -> dict[str, int]:
    """Return the number of transactions in the log by state."""
    return {str(state): int(count) for state, count in session.rows(_STATES)}


def open_transactions(session: Session, now: int) -> tuple[int | None, int]:
    """Return when the oldest open transaction began, and how many leases have expired."""
    oldest, expired = session.row(_OPEN, {"now": now})
    return (None if oldest is None else int(oldest)), int(expired or 0)


def runs(session: Session) -> list[Ended]:
    """Return the counts and times of pipeline runs, by pipeline and state."""
    return [_ended(row) for row in session.rows(_RUNS)]


def jobs(session: Session, now: int) -> list[Ended]:
    """Return the counts and times of maintenance runs, by kind and state."""
    return [_ended(row) for row in session.rows(_JOBS, {"now": now})]


def violations(session: Session) -> list[tuple[str, str, int]]:
    """Return the numbers of rows that violated constraints: table, action taken, rows."""
    return [(str(t), str(a), int(n or 0)) for t, a, n in session.rows(_VIOLATIONS)]


def writers(session: Session) -> list[tuple[int, str, int | None, int | None]]:
    """Return the writers of streams: table id, writer id, last epoch, time of its commit."""
    return [(int(t), str(w), epoch, at) for t, w, epoch, at in session.rows(_WRITERS)]


def committed_ms(session: Session, table_id: int, version: int) -> int | None:
    """Return when a version was committed; None if the log no longer has the version."""
    row = session.row(_COMMITTED, {"table_id": table_id, "version": version})
    return None if row is None else int(row[0])


def store_bytes(session: Session) -> int:
    """Return the size of the store in bytes."""
    return int(session.row(_SIZE[session.dialect])[0] or 0)


def _ended(row: Any) -> Ended:
    name, state, count, last, took = row
    return Ended(str(name), str(state), int(count), last, int(took or 0))
