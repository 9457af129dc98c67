"""The audit trail: who did what when, one hash chain per table.

Every entry's hash covers the entry and the hash before it, and the head row holds the last one, so
an entry that is changed, removed or slipped in breaks the chain. A chain per table needs no lock
that a commit does not hold already.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import bindparam

from lakeward.log.codec import dumps
from lakeward.log.database import Session
from lakeward.log.statement import Statement
from lakeward.log.tables import audit
from lakeward.model.commit import Head

GENESIS: Final = ""

_INSERT = Statement(sa.insert(audit))
_OF_TABLE = Statement(
    sa.select(*[c for c in audit.c if c.name != "table_id"])
    .where(audit.c.table_id == bindparam("table_id"))
    .order_by(audit.c.seq)
)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Something that somebody did to a table."""

    seq: int
    at_ms: int
    actor: str
    action: str
    transaction_id: str | None
    version: int | None
    detail: str
    hash: str


def record(
    session: Session,
    head: Head,
    *,
    at_ms: int,
    actor: str,
    action: str,
    transaction_id: str | None = None,
    version: int | None = None,
    detail: dict[str, Any] | None = None,
) -> Head:
    """Append an entry to a table's chain; the head that goes with it, still to be stored."""
    entry = AuditEntry(
        seq=head.audit_seq + 1,
        at_ms=at_ms,
        actor=actor,
        action=action,
        transaction_id=transaction_id,
        version=version,
        detail=dumps(detail or {}),
        hash="",
    )
    digest = _digest(head.audit_hash, entry)
    session.run(
        _INSERT,
        {
            "table_id": head.table_id,
            "seq": entry.seq,
            "at_ms": at_ms,
            "actor": actor,
            "action": action,
            "transaction_id": transaction_id,
            "version": version,
            "detail": entry.detail,
            "hash": digest,
        },
    )
    return replace(head, audit_seq=entry.seq, audit_hash=digest)


def entries(session: Session, table_id: int) -> Iterator[AuditEntry]:
    """A table's trail, oldest first."""
    for chunk in session.stream(_OF_TABLE, {"table_id": table_id}):
        for row in chunk:
            yield AuditEntry(*row)


def broken_at(session: Session, head: Head) -> int | None:
    """The first entry that does not fit the chain, or None when the chain is whole."""
    previous, expected = GENESIS, 1
    for entry in entries(session, head.table_id):
        if entry.seq != expected or entry.hash != _digest(previous, entry):
            return expected
        previous, expected = entry.hash, expected + 1
    if previous != head.audit_hash or expected != head.audit_seq + 1:
        return expected
    return None


def _digest(previous: str, entry: AuditEntry) -> str:
    parts = (
        previous,
        str(entry.seq),
        str(entry.at_ms),
        entry.actor,
        entry.action,
        entry.transaction_id or "",
        "" if entry.version is None else str(entry.version),
        entry.detail,
    )
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()
