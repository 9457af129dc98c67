"""The sources of rows as recorded by transactions, together with the transactions' commits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lakeward.log.codec import dumps, info_of, loads
from lakeward.log.database import Session
from lakeward.log.statement import Statement, insertion
from lakeward.log.tables import lineage
from lakeward.model.commit import CommitInfo

_PUT = insertion(lineage, "ON CONFLICT (transaction_id) DO UPDATE SET body = excluded.body")
_COMMITS = Statement(
    """SELECT c.table_id, c.version, c.timestamp_ms, c.transaction_id, c.operation, c.actor, c.info,
        l.body
    FROM lakeward_commit c LEFT JOIN lakeward_lineage l ON l.transaction_id = c.transaction_id
    WHERE (:every = 1 OR c.table_id = :table_id) AND c.version > :after AND c.version <= :until
    ORDER BY c.table_id, c.version"""
)
_COMMITS_OF = Statement(
    """SELECT c.table_id, c.version, c.timestamp_ms, c.transaction_id, c.operation, c.actor, c.info,
        l.body
    FROM lakeward_commit c LEFT JOIN lakeward_lineage l ON l.transaction_id = c.transaction_id
    WHERE c.transaction_id = :transaction_id ORDER BY c.table_id"""
)
_NEWEST = Statement(
    """SELECT c.table_id, c.version, c.timestamp_ms, c.transaction_id, c.operation, c.actor, c.info,
        l.body
    FROM lakeward_lineage l JOIN lakeward_commit c ON c.transaction_id = l.transaction_id
    ORDER BY c.position DESC, c.table_id LIMIT :limit"""
)


@dataclass(frozen=True, slots=True)
class SourcedCommit:
    """A commit, with the flows that its transaction recorded."""

    table_id: int
    version: int
    timestamp_ms: int
    info: CommitInfo
    flows: Sequence[dict[str, Any]]


def put(session: Session, transaction_id: str, flows: Sequence[dict[str, Any]]) -> None:
    """Record the flows by which the rows of a transaction came from their sources."""
    session.run(_PUT, {"transaction_id": transaction_id, "body": dumps(list(flows))})


def commits(
    session: Session, table_id: int | None, until: int, *, after: int = -1
) -> list[SourcedCommit]:
    """Return the commits of a table (or of all) after a version, up to another, oldest first."""
    params = {"every": int(table_id is None), "table_id": table_id or 0, "until": until}
    return [_sourced(row) for row in session.rows(_COMMITS, {**params, "after": after})]


def commits_of(session: Session, transaction_id: str) -> list[SourcedCommit]:
    """Return the commits of a transaction, ordered by table id."""
    return [_sourced(row) for row in session.rows(_COMMITS_OF, {"transaction_id": transaction_id})]


def newest(session: Session, limit: int) -> list[SourcedCommit]:
    """Return the newest commits whose transactions recorded flows, oldest first."""
    return [_sourced(row) for row in session.rows(_NEWEST, {"limit": limit})][::-1]


def _sourced(row: Any) -> SourcedCommit:
    table, version, at, own, operation, actor, info, body = row
    flows = loads(body) if body else ()
    return SourcedCommit(table, version, at, info_of(own, operation, actor, info), flows)
