"""Files in no version of a table that a transaction is adding or a vacuum is deleting.

A transaction that adds files by their paths claims them under a shared lock of the table's head. A
vacuum announces such files before it deletes them, under the exclusive lock, and leaves out those
that an open transaction claims. So a claimed file is never deleted, and a file that is being
deleted cannot be claimed, although files are deleted without holding a lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from lakeward.log import heads
from lakeward.log.codec import dumps, loads
from lakeward.log.database import Session
from lakeward.log.statement import Statement, insertion
from lakeward.log.tables import unrecorded
from lakeward.model.commit import new_transaction_id

_DAY_MS: Final = 86_400_000
"""How long an announcement stays valid if its vacuum was killed."""
_INSERT = insertion(unrecorded, "")
_DELETE = Statement("DELETE FROM lakeward_unrecorded WHERE entry_id = :entry_id")
_RELEASE = Statement("DELETE FROM lakeward_unrecorded WHERE transaction_id = :transaction_id")
_CLAIMED = Statement(
    """SELECT u.paths FROM lakeward_unrecorded u
      JOIN lakeward_transaction t ON t.transaction_id = u.transaction_id
    WHERE u.table_id = :table_id AND t.state = 'open'"""
)
_ANNOUNCED = Statement(
    """SELECT paths FROM lakeward_unrecorded
    WHERE table_id = :table_id AND transaction_id IS NULL"""
)
_ANY = Statement("SELECT 1 FROM lakeward_unrecorded LIMIT 1")
_PRUNE = Statement(
    """DELETE FROM lakeward_unrecorded
    WHERE (transaction_id IS NULL AND begun_ms < :before)
      OR (transaction_id IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM lakeward_transaction t
        WHERE t.transaction_id = lakeward_unrecorded.transaction_id AND t.state = 'open'))"""
)


def claim(
    session: Session, table_id: int, transaction_id: str, paths: Sequence[str], now: int
) -> set[str]:
    """Claim files for an open transaction, unless a vacuum is deleting some of them.

    Return the files that a vacuum is deleting; if there are any, no file is claimed.
    """
    heads.share(session, table_id)
    lost = _paths(session, _ANNOUNCED, table_id).intersection(paths)
    if not lost:
        _insert(session, table_id, transaction_id, paths, now)
    return lost


def claimed(session: Session, table_id: int) -> set[str]:
    """Return the files of a table that open transactions claim."""
    return _paths(session, _CLAIMED, table_id)


def release(session: Session, transaction_id: str) -> None:
    """Delete the claims of a transaction that ends in this session."""
    session.run(_RELEASE, {"transaction_id": transaction_id})


def announce(session: Session, table_id: int, paths: Sequence[str], now: int) -> str:
    """Record that files are going to be deleted; return the id of the announcement.

    The caller has locked the table's head.
    """
    return _insert(session, table_id, None, paths, now)


def withdraw(session: Session, entry_id: str) -> None:
    """Delete an announcement after its files were deleted."""
    session.run(_DELETE, {"entry_id": entry_id})


def has_any(session: Session) -> bool:
    """Return whether there is any claim or announcement."""
    return session.row(_ANY) is not None


def prune(session: Session, now: int) -> None:
    """Delete claims of transactions that have ended, and announcements older than a day."""
    session.run(_PRUNE, {"before": now - _DAY_MS})


def _insert(
    session: Session, table_id: int, transaction_id: str | None, paths: Iterable[str], now: int
) -> str:
    entry_id = new_transaction_id()
    row = {
        "entry_id": entry_id,
        "table_id": table_id,
        "transaction_id": transaction_id,
        "paths": dumps(list(paths)),
        "begun_ms": now,
    }
    session.run(_INSERT, row)
    return entry_id


def _paths(session: Session, statement: Statement, table_id: int) -> set[str]:
    found = session.rows(statement, {"table_id": table_id})
    return {path for (paths,) in found for path in loads(paths)}
