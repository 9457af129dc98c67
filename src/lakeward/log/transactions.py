"""Registered transactions with their leases, which also protect their staged files.

A transaction is open until it is ratified, rolled back or expired, and leaves that state once. So
committing one id twice commits once, and a writer that lost its lease cannot commit.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import bindparam

from lakeward.log.database import Database, Session
from lakeward.log.statement import Statement, equal, insertion
from lakeward.log.tables import transaction
from lakeward.model.commit import TransactionState

LEASE_MS: Final = 60_000

_INSERT = insertion(transaction)
_END = Statement(
    sa.update(transaction)
    .where(
        transaction.c.transaction_id == bindparam("id"),
        transaction.c.state == bindparam("expected"),
    )
    .values(state=bindparam("state"), ended_ms=bindparam("ended_ms"))
)
_RATIFY = Statement(
    sa.update(transaction)
    .where(transaction.c.transaction_id == bindparam("id"))
    .values(state=bindparam("state"), ended_ms=bindparam("ended_ms"))
)
_COLUMNS = list(transaction.c)
_GET = Statement(sa.select(*_COLUMNS).where(*equal(transaction, "transaction_id")))
_LOCK = Statement(
    sa.select(transaction.c.state).where(*equal(transaction, "transaction_id")).with_for_update()
)
_NEWEST_FIRST = (transaction.c.opened_ms.desc(), transaction.c.transaction_id.desc())
_LIST = Statement(sa.select(*_COLUMNS).order_by(*_NEWEST_FIRST).limit(bindparam("limit")))
_LIST_STATE = Statement(
    sa.select(*_COLUMNS)
    .where(*equal(transaction, "state"))
    .order_by(*_NEWEST_FIRST)
    .limit(bindparam("limit"))
)
_OPEN = Statement(
    sa.select(*_COLUMNS)
    .where(transaction.c.state == "open")
    .order_by(transaction.c.opened_ms.desc())
)
_REOPEN = Statement(
    sa.update(transaction)
    .where(
        transaction.c.transaction_id == bindparam("id"),
        sa.or_(transaction.c.state == "rolled_back", transaction.c.state == "expired"),
    )
    .values(state="open", ended_ms=sa.null(), lease_until_ms=bindparam("until"))
)
_EXTEND = Statement(
    sa.update(transaction)
    .where(transaction.c.transaction_id == bindparam("id"), transaction.c.state == "open")
    .values(lease_until_ms=bindparam("until"))
)
_EXPIRE = Statement(
    sa.update(transaction)
    .where(transaction.c.state == "open", transaction.c.lease_until_ms < bindparam("now"))
    .values(state="expired", ended_ms=bindparam("now"))
)


@dataclass(frozen=True, slots=True)
class Registration:
    """A transaction's row."""

    transaction_id: str
    state: TransactionState
    actor: str
    isolation: str
    message: str | None
    process: str
    opened_ms: int
    lease_until_ms: int
    ended_ms: int | None


def register(
    session: Session,
    now: int,
    *,
    transaction_id: str,
    actor: str,
    isolation: str,
    message: str | None,
) -> bool:
    """Register an open transaction; False when its id is taken."""
    inserted = session.run(
        _INSERT,
        {
            "transaction_id": transaction_id,
            "state": "open",
            "actor": actor,
            "isolation": isolation,
            "message": message,
            "process": f"{_HOST}:{os.getpid()}",
            "opened_ms": now,
            "lease_until_ms": now + LEASE_MS,
            "ended_ms": None,
        },
    )
    return inserted == 1


def register_ratified(session: Session, ids: Iterable[str], actor: str, now: int) -> None:
    """Register transactions that were ratified, when a store is rebuilt."""
    columns = [c.name for c in transaction.c]
    rows = ((i, "ratified", actor, "snapshot", None, "", now, now, now) for i in ids)
    session.bulk(transaction.name, columns, rows)


def reopen(session: Session, transaction_id: str, now: int) -> bool:
    """Open a rolled back or expired transaction again; False when there is none of this id."""
    until = now + LEASE_MS
    return session.run(_REOPEN, {"id": transaction_id, "until": until}) == 1


def end(session: Session, transaction_id: str, state: TransactionState, now: int) -> bool:
    """Close an open transaction; False when it was not open."""
    params = {"id": transaction_id, "expected": "open", "state": state.value, "ended_ms": now}
    return session.run(_END, params) == 1


def found_published(session: Session, transaction_id: str, now: int) -> bool:
    """Close a transaction as ratified because its published file exists; False if it is not ours.

    Only for unguarded tables: there the published file is the commit, even of an expired writer.
    """
    params = {"id": transaction_id, "state": TransactionState.RATIFIED.value, "ended_ms": now}
    return session.run(_RATIFY, params) == 1


def get(session: Session, transaction_id: str) -> Registration | None:
    """A transaction's row, if it was ever registered."""
    row = session.row(_GET, {"transaction_id": transaction_id})
    return _registration(row) if row else None


def lock(session: Session, transaction_id: str) -> TransactionState | None:
    """A transaction's state, with a lock on its row."""
    row = session.row(_LOCK, {"transaction_id": transaction_id})
    return TransactionState(row[0]) if row else None


def newest(
    session: Session, limit: int, state: TransactionState | None = None
) -> list[Registration]:
    """The newest transactions, or those of one state, newest first."""
    if state is None:
        rows = session.rows(_LIST, {"limit": limit})
    else:
        rows = session.rows(_LIST_STATE, {"limit": limit, "state": state.value})
    return [_registration(row) for row in rows]


def still_open(session: Session) -> list[Registration]:
    """Transactions that are open, newest first."""
    return [_registration(row) for row in session.rows(_OPEN)]


def extend(database: Database, transaction_ids: Iterable[str]) -> None:
    """Renew leases."""
    with database.write() as session:
        until = database.clock_ms(session) + LEASE_MS
        session.many(_EXTEND, [{"id": i, "until": until} for i in transaction_ids])


def expire(session: Session, now: int) -> int:
    """Close open transactions whose lease ran out; how many."""
    return session.run(_EXPIRE, {"now": now})


def _registration(row: Any) -> Registration:
    return Registration(row[0], TransactionState(row[1]), *row[2:])


_HOST: Final = socket.gethostname()
