"""Registered transactions with their leases, which also protect their staged files.

A transaction is open until it is ratified, rolled back or expired. Only an open one is ratified,
and only once. So committing one id twice commits once, and an expired writer cannot commit.

A transaction of a chosen id that ended without a commit may be opened again. The new row has a
later `opened_ms`, and whoever opened the earlier one can neither commit nor end the new one.
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
_END_OWN = Statement(
    """UPDATE lakeward_transaction SET state = :state, ended_ms = :ended_ms
    WHERE transaction_id = :id AND state = :expected AND opened_ms = :opened_ms"""
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
    """UPDATE lakeward_transaction SET state = 'open', process = :process, ended_ms = NULL,
      opened_ms = CASE WHEN opened_ms < :now THEN :now ELSE opened_ms + 1 END,
      lease_until_ms = :until
    WHERE transaction_id = :id AND (state = 'rolled_back' OR state = 'expired')"""
)
_EXTEND = Statement(
    """UPDATE lakeward_transaction SET lease_until_ms = :until
    WHERE transaction_id = :id AND state = 'open' AND opened_ms = :opened_ms"""
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
    """Register an open transaction; return False if its id is used already."""
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
    """Register transactions as ratified, when a store is rebuilt."""
    columns = transaction.columns
    rows = ((i, "ratified", actor, "snapshot", None, "", now, now, now) for i in ids)
    session.bulk(transaction.name, columns, rows)


def reopen(session: Session, transaction_id: str, now: int) -> bool:
    """Open a rolled back or expired transaction again; return False if there is none of this id."""
    own = {"id": transaction_id, "process": f"{_HOST}:{os.getpid()}"}
    return session.run(_REOPEN, {**own, "now": now, "until": now + LEASE_MS}) == 1


def end(
    session: Session,
    transaction_id: str,
    state: TransactionState,
    now: int,
    opened_ms: int | None = None,
) -> bool:
    """Set the final state of an open transaction; return False if it was not open.

    With `opened_ms`, return False as well if it was opened again since that time.
    """
    params = {
        "id": transaction_id,
        "expected": "open",
        "state": state.value,
        "ended_ms": now,
        "opened_ms": opened_ms,
    }
    return session.run(_END if opened_ms is None else _END_OWN, params) == 1


def found_published(session: Session, transaction_id: str, now: int) -> bool:
    """Mark a transaction as ratified because its published file exists.

    Return False if it is not registered here. Only for open tables: there the published file is the
    commit, even of an expired writer.
    """
    params = {"id": transaction_id, "state": TransactionState.RATIFIED.value, "ended_ms": now}
    return session.run(_RATIFY, params) == 1


def get(session: Session, transaction_id: str) -> Registration | None:
    """Return a transaction's row; None if it was never registered."""
    row = session.row(_GET, {"transaction_id": transaction_id})
    return _registration(row) if row else None


def lock(session: Session, transaction_id: str) -> TransactionState | None:
    """Lock a transaction's row; return its state, or None if it was never registered."""
    row = session.row(_LOCK, {"transaction_id": transaction_id})
    return TransactionState(row[0]) if row else None


def newest(
    session: Session, limit: int, state: TransactionState | None = None
) -> list[Registration]:
    """Return the newest transactions, all or those of one state, newest first."""
    if state is None:
        rows = session.rows(_LIST, {"limit": limit})
    else:
        rows = session.rows(_LIST_STATE, {"limit": limit, "state": state.value})
    return [_registration(row) for row in rows]


def still_open(session: Session) -> list[Registration]:
    """Return the open transactions, newest first."""
    return [_registration(row) for row in session.rows(_OPEN)]


def all_ids(session: Session) -> list[str]:
    """Return the ids of all known transactions."""
    return [row[0] for row in session.rows(_IDS)]


def extend(database: Database, held: Iterable[tuple[str, int]]) -> None:
    """Renew the leases of open transactions, given by their ids and the times they were opened."""
    with database.write() as session:
        until = database.clock_ms(session) + LEASE_MS
        rows = [{"id": own, "opened_ms": opened_ms, "until": until} for own, opened_ms in held]
        session.many(_EXTEND, rows)


def expire(session: Session, now: int) -> int:
    """Mark open transactions whose lease has expired as expired; return how many."""
    return session.run(_EXPIRE, {"now": now})


def _registration(row: Any) -> Registration:
    return Registration(row[0], TransactionState(row[1]), *row[2:])


_HOST: Final = socket.gethostname()
