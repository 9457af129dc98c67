"""Rows of transactions that clients of the service send in several requests, until the commit.

Row 0 of a transaction has the arguments with which it was begun; the other rows are its operations,
in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lakeward.log.codec import dumps, loads
from lakeward.log.database import Session
from lakeward.log.statement import Statement, insertion
from lakeward.log.tables import pending

_INSERT = insertion(pending)
_ROWS = Statement(
    """SELECT seq, body, actor, added_ms FROM lakeward_pending
    WHERE transaction_id = :transaction_id ORDER BY seq"""
)
_DELETE = Statement("DELETE FROM lakeward_pending WHERE transaction_id = :transaction_id")
_OLD = Statement(
    """SELECT transaction_id FROM lakeward_pending GROUP BY transaction_id
    HAVING max(added_ms) < :before"""
)


@dataclass(frozen=True, slots=True)
class PendingRow:
    """A row of a pending transaction; `body` is the JSON of its operation."""

    seq: int
    body: dict[str, Any]
    actor: str
    added_ms: int


def insert(session: Session, transaction_id: str, row: PendingRow) -> bool:
    """Insert a row; return False if the transaction has a row of this number already."""
    values = {
        "transaction_id": transaction_id,
        "seq": row.seq,
        "body": dumps(row.body),
        "actor": row.actor,
        "added_ms": row.added_ms,
    }
    return session.run(_INSERT, values) == 1


def rows(session: Session, transaction_id: str) -> list[PendingRow]:
    """Return all rows of a pending transaction, by number; empty if there is no transaction."""
    found = session.rows(_ROWS, {"transaction_id": transaction_id})
    return [PendingRow(seq, loads(body), actor, at) for seq, body, actor, at in found]


def delete(session: Session, transaction_id: str) -> None:
    """Delete all rows of a pending transaction."""
    session.run(_DELETE, {"transaction_id": transaction_id})


def older_than(session: Session, before_ms: int) -> list[str]:
    """Return the ids of pending transactions to which nothing was added since a time."""
    return [row[0] for row in session.rows(_OLD, {"before": before_ms})]
