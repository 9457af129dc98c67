"""Locks on tables: their holders, and the transactions that wait for them.

A lock belongs to a registered transaction, shares the transaction's lease, and is valid while the
transaction is open. A transaction that wants a lock whose lease has expired first ends the holder,
in the same session, so that the holder cannot commit later. Callers have locked the table's head,
which serializes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lakeward.log import transactions
from lakeward.log.database import Session
from lakeward.log.statement import Statement
from lakeward.log.tables import lock, lock_wait
from lakeward.model.commit import TransactionState
from lakeward.model.locks import Claim, Claims, LockMode
from lakeward.model.names import TableName


def _select(table: str) -> Statement:
    return Statement(
        f"""SELECT l.table_id, h.namespace, h.name, l.mode, l.transaction_id, t.actor, t.process,
          l.since_ms, t.opened_ms, t.lease_until_ms
        FROM {table} l JOIN lakeward_transaction t ON t.transaction_id = l.transaction_id
        JOIN lakeward_head h ON h.table_id = l.table_id
        WHERE t.state = 'open' ORDER BY l.since_ms, l.transaction_id"""  # noqa: S608  our names
    )


def _put(table: str) -> Statement:
    return Statement(
        f"""INSERT INTO {table} (table_id, transaction_id, mode, since_ms)
        VALUES (:table_id, :transaction_id, :mode, :since_ms)
        ON CONFLICT (table_id, transaction_id) DO UPDATE SET mode =
            CASE {table}.mode WHEN 'write' THEN 'write' ELSE excluded.mode END"""  # noqa: S608  a name of our own
    )


def _delete_ended(table: str) -> Statement:
    return Statement(
        f"""DELETE FROM {table} WHERE NOT EXISTS (
            SELECT 1 FROM lakeward_transaction t
            WHERE t.transaction_id = {table}.transaction_id AND t.state = 'open')"""  # noqa: S608  our names
    )


_HELD = _select(lock.name)
_WAITING = _select(lock_wait.name)
_ANY_OF_OTHERS = Statement("SELECT table_id FROM lakeward_lock WHERE transaction_id <> :id LIMIT 1")
_GRANT = _put(lock.name)
_WAIT = _put(lock_wait.name)
_WITHDRAW = Statement(
    """DELETE FROM lakeward_lock_wait
    WHERE table_id = :table_id AND transaction_id = :transaction_id"""
)
_RELEASE = tuple(
    Statement(f"DELETE FROM {source.name} WHERE transaction_id = :id")  # noqa: S608  our names
    for source in (lock, lock_wait)
)
_SWEEP = (_delete_ended(lock.name), _delete_ended(lock_wait.name))
# A transaction whose row is locked is renewing its lease or committing: it is alive.
_LOCK_EXPIRED = Statement(
    """SELECT transaction_id FROM lakeward_transaction
    WHERE transaction_id = :id AND state = 'open' AND lease_until_ms < :now
    FOR UPDATE SKIP LOCKED"""
)


def claims(session: Session) -> Claims:
    """Return the held locks and waiting requests of all open transactions, expired or not."""
    held = tuple(_claim(row, is_held=True) for row in session.rows(_HELD))
    waiting = tuple(_claim(row, is_held=False) for row in session.rows(_WAITING))
    return Claims(held, waiting)


def any_of_others(session: Session, transaction_id: str) -> bool:
    """Return whether another transaction may hold a lock on any table."""
    return session.row(_ANY_OF_OTHERS, {"id": transaction_id}) is not None


def acquire(session: Session, wanted: Claim, now: int) -> list[Claim]:
    """Take a lock unless other claims block it; return the blocking claims, empty if it was taken.

    The caller has locked the table's head.
    """
    blocking = close_expired(session, claims(session).blocking(wanted), now)
    if not blocking:
        withdraw(session, wanted.table_id, wanted.transaction_id)
        session.run(_GRANT, _row(wanted))
    return blocking


def wait(session: Session, wanted: Claim) -> None:
    """Record a request that waits for a lock; an earlier request keeps its place in the queue."""
    session.run(_WAIT, _row(wanted))


def withdraw(session: Session, table_id: int, transaction_id: str) -> None:
    """Delete a transaction's request that waits for a lock on a table."""
    session.run(_WITHDRAW, {"table_id": table_id, "transaction_id": transaction_id})


def release(session: Session, transaction_id: str) -> None:
    """Delete the locks and waiting requests of a transaction."""
    for statement in _RELEASE:
        session.run(statement, {"id": transaction_id})


def close_expired(session: Session, found: Iterable[Claim], now: int) -> list[Claim]:
    """End transactions whose lease has expired, release their locks; return the claims left."""
    found = list(found)
    closed = set()
    for expired in sorted({c.transaction_id for c in found if c.lease_until_ms < now}):
        if session.row(_LOCK_EXPIRED, {"id": expired, "now": now}) is not None:
            transactions.end(session, expired, TransactionState.EXPIRED, now)
            release(session, expired)
            closed.add(expired)
    return [c for c in found if c.transaction_id not in closed]


def sweep(session: Session) -> None:
    """Delete the locks and waiting requests of transactions that have ended."""
    for statement in _SWEEP:
        session.run(statement)


def _row(claim: Claim) -> dict[str, Any]:
    return {
        "table_id": claim.table_id,
        "transaction_id": claim.transaction_id,
        "mode": claim.mode.value,
        "since_ms": claim.since_ms,
    }


def _claim(row: Any, *, is_held: bool) -> Claim:
    name = str(TableName(row[1], row[2]))
    return Claim(row[0], name, LockMode(row[3]), is_held, *row[4:])
