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

from lakeward.log.database import Database, Session
from lakeward.log.statement import Statement, insertion
from lakeward.log.tables import transaction
from lakeward.model.commit import TransactionState

LEASE_MS: Final = 60_000

_INSERT = insertion(transaction)
_END = Statement(
    """UPDATE lakeward_transaction SET state = :state, ended_ms = :ended_ms
    WHERE transaction_id = :id AND state = :expected"""
)
_RATIFY = Statement(
    """UPDATE lakeward_transaction SET state = :state, ended_ms = :ended_ms
    WHERE transaction_id = :id"""
)
_COLUMNS = ", ".join(transaction.columns)
_GET = Statement(
    f"SELECT {_COLUMNS} FROM lakeward_transaction WHERE transaction_id = :transaction_id"  # noqa: S608  our names
)
_LOCK = Statement(
    "SELECT state FROM lakeward_transaction WHERE transaction_id = :transaction_id FOR UPDATE"
)
_LIST = Statement(
    f"""SELECT {_COLUMNS} FROM lakeward_transaction ORDER BY opened_ms DESC, transaction_id DESC
    LIMIT :limit"""  # noqa: S608  our names
)
_LIST_STATE = Statement(
    f"""SELECT {_COLUMNS} FROM lakeward_transaction WHERE state = :state
    ORDER BY opened_ms DESC, transaction_id DESC LIMIT :limit"""  # noqa: S608  our names
)
_OPEN = Statement(
    f"SELECT {_COLUMNS} FROM lakeward_transaction WHERE state = 'open' ORDER BY opened_ms DESC"  # noqa: S608  our names
)
_IDS = Statement("SELECT transaction_id FROM lakeward_transaction")
_REOPEN = Statement(
    """UPDATE lakeward_transaction SET state = 'open', lease_until_ms = :until, ended_ms = NULL
    WHERE transaction_id = :id AND (state = 'rolled_back' OR state = 'expired')"""
)
_EXTEND = Statement(
    """UPDATE lakeward_transaction SET lease_until_ms = :until
    WHERE transaction_id = :id AND state = 'open'"""
)
_EXPIRE = Statement(
    """UPDATE lakeward_transaction SET state = 'expired', ended_ms = :now
    WHERE state = 'open' AND lease_until_ms < :now"""
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
    columns = transaction.columns
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


def all_ids(session: Session) -> list[str]:
    """Return the ids of all known transactions."""
    return [row[0] for row in session.rows(_IDS)]


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
