"""Locks on tables: their holders, and the transactions that wait for them.

A lock belongs to a registered transaction, shares its lease, and is valid while that is open. A
transaction that wants a lock whose lease ran out closes its holder first, in the same session, so
that the holder cannot commit later. Callers have locked the table's head, which orders them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam

from lakeward.log import transactions
from lakeward.log.database import Session
from lakeward.log.statement import Statement, equal
from lakeward.log.tables import head, lock, lock_wait, transaction
from lakeward.model.commit import TransactionState
from lakeward.model.locks import Claim, Claims, LockMode
from lakeward.model.names import TableName


def _select(source: sa.Table) -> Statement:
    return Statement(
        sa.select(
            source.c.table_id,
            head.c.namespace,
            head.c.name,
            source.c.mode,
            source.c.transaction_id,
            transaction.c.actor,
            transaction.c.process,
            source.c.since_ms,
            transaction.c.opened_ms,
            transaction.c.lease_until_ms,
        )
        .join(transaction, transaction.c.transaction_id == source.c.transaction_id)
        .join(head, head.c.table_id == source.c.table_id)
        .where(transaction.c.state == "open")
        .order_by(source.c.since_ms, source.c.transaction_id)
    )


def _put(table: str) -> Statement:
    return Statement(
        f"""INSERT INTO {table} (table_id, transaction_id, mode, since_ms)
        VALUES (:table_id, :transaction_id, :mode, :since_ms)
        ON CONFLICT (table_id, transaction_id) DO UPDATE SET mode =
            CASE {table}.mode WHEN 'write' THEN 'write' ELSE excluded.mode END"""  # noqa: S608  a name of our own
    )


def _delete_ended(source: sa.Table) -> Statement:
    still_open = (
        sa.select(transaction.c.transaction_id)
        .where(transaction.c.transaction_id == source.c.transaction_id)
        .where(transaction.c.state == "open")
    )
    return Statement(sa.delete(source).where(~still_open.exists()))


_HELD = _select(lock)
_WAITING = _select(lock_wait)
_ANY_OF_OTHERS = Statement(
    sa.select(lock.c.table_id).where(lock.c.transaction_id != bindparam("id")).limit(1)
)
_GRANT = _put(lock.name)
_WAIT = _put(lock_wait.name)
_WITHDRAW = Statement(sa.delete(lock_wait).where(*equal(lock_wait, "table_id", "transaction_id")))
_RELEASE = tuple(
    Statement(sa.delete(source).where(source.c.transaction_id == bindparam("id")))
    for source in (lock, lock_wait)
)
_SWEEP = (_delete_ended(lock), _delete_ended(lock_wait))
# A transaction whose row is locked is renewing its lease or committing: it is alive.
_LOCK_EXPIRED = Statement(
    sa.select(transaction.c.transaction_id)
    .where(
        transaction.c.transaction_id == bindparam("id"),
        transaction.c.state == "open",
        transaction.c.lease_until_ms < bindparam("now"),
    )
    .with_for_update(skip_locked=True)
)


def claims(session: Session) -> Claims:
    """Held locks and waiting requests of all open transactions, expired leases included."""
    held = tuple(_claim(row, is_held=True) for row in session.rows(_HELD))
    waiting = tuple(_claim(row, is_held=False) for row in session.rows(_WAITING))
    return Claims(held, waiting)


def any_of_others(session: Session, transaction_id: str) -> bool:
    """Whether another transaction may hold a lock on anything."""
    return session.row(_ANY_OF_OTHERS, {"id": transaction_id}) is not None


def acquire(session: Session, wanted: Claim, now: int) -> list[Claim]:
    """Take a lock, unless others block it; the claims that do. The head must be locked."""
    blocking = close_expired(session, claims(session).blocking(wanted), now)
    if not blocking:
        withdraw(session, wanted.table_id, wanted.transaction_id)
        session.run(_GRANT, _row(wanted))
    return blocking


def wait(session: Session, wanted: Claim) -> None:
    """Record a waiting request; an earlier one keeps its place in the queue."""
    session.run(_WAIT, _row(wanted))


def withdraw(session: Session, table_id: int, transaction_id: str) -> None:
    """Stop waiting."""
    session.run(_WITHDRAW, {"table_id": table_id, "transaction_id": transaction_id})


def release(session: Session, transaction_id: str) -> None:
    """Delete the locks and waiting requests of a transaction."""
    for statement in _RELEASE:
        session.run(statement, {"id": transaction_id})


def close_expired(session: Session, found: Iterable[Claim], now: int) -> list[Claim]:
    """Close transactions whose lease ran out and free their locks; the claims that are left."""
    found = list(found)
    closed = set()
    for expired in sorted({c.transaction_id for c in found if c.lease_until_ms < now}):
        if session.row(_LOCK_EXPIRED, {"id": expired, "now": now}) is not None:
            transactions.end(session, expired, TransactionState.EXPIRED, now)
            release(session, expired)
            closed.add(expired)
    return [c for c in found if c.transaction_id not in closed]


def sweep(session: Session) -> None:
    """Delete the rows of transactions that ended, which are no longer valid."""
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
