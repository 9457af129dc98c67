"""Idempotency keys: what was asked with each, and by whom, so that a change is made once."""

from __future__ import annotations

from typing import Final

from lakeward.log.database import Session
from lakeward.log.statement import Statement, insertion
from lakeward.log.tables import once

NO_VERSION: Final = "transaction without a version"
"""What is recorded of a transaction that only dropped tables or recorded a position."""
_INSERT = insertion(once)
_FIND = Statement("SELECT what, actor FROM lakeward_once WHERE key = :key")


def insert(session: Session, key: str, what: str, actor: str, now: int) -> bool:
    """Record that a change was made; return False if its key was used before."""
    return session.run(_INSERT, {"key": key, "what": what, "actor": actor, "made_ms": now}) == 1


def find(session: Session, key: str) -> tuple[str, str] | None:
    """Return the change for which a key was used, and the actor; None if it was not used."""
    row = session.row(_FIND, {"key": key})
    return (row[0], row[1]) if row else None
