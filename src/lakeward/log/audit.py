"""The audit trail: who did what when, one hash chain per table.

Every entry's hash covers the entry and the hash before it, and the head row holds the last one, so
an entry that is changed, removed or slipped in breaks the chain. A chain per table needs no lock
that a commit does not hold already.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, NotRequired, TypeAlias, TypedDict, Unpack

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


class _Entry(TypedDict):
    at_ms: int
    actor: str
    action: str
    transaction_id: NotRequired[str | None]
    version: NotRequired[int | None]
    detail: NotRequired[dict[str, Any] | None]


class Link(NamedTuple):
    """The last entry of a table's chain, as its head row holds it."""

    seq: int
    hash: str


def record(session: Session, head: Head, **entry: Unpack[_Entry]) -> Head:
    """Append an entry to a table's chain; the head that goes with it, still to be stored."""
    link = add(session, head, **entry)
    return replace(head, audit_seq=link.seq, audit_hash=link.hash)


def add(
    session: Session,
    head: Head,
    *,
    at_ms: int,
    actor: str,
    action: str,
    transaction_id: str | None = None,
    version: int | None = None,
    detail: dict[str, Any] | None = None,
) -> Link:
    """Append an entry to a table's chain; the link that its head is to hold from now on."""
    seq, text = head.audit_seq + 1, dumps(detail or {})
    said = (seq, at_ms, actor, action, transaction_id, version, text)
    digest = _digest(head.audit_hash, said)
    session.run(
        _INSERT,
        {
            "table_id": head.table_id,
            "seq": seq,
            "at_ms": at_ms,
            "actor": actor,
            "action": action,
            "transaction_id": transaction_id,
            "version": version,
            "detail": text,
            "hash": digest,
        },
    )
    return Link(seq, digest)


def entries(session: Session, table_id: int) -> Iterator[AuditEntry]:
    """A table's trail, oldest first."""
    for chunk in session.stream(_OF_TABLE, {"table_id": table_id}):
        for row in chunk:
            yield AuditEntry(*row)


def broken_at(session: Session, head: Head) -> int | None:
    """The first entry that does not fit the chain, or None when the chain is whole."""
    previous, expected = GENESIS, 1
    for entry in entries(session, head.table_id):
        if entry.seq != expected or entry.hash != _digest(previous, _said(entry)):
            return expected
        previous, expected = entry.hash, expected + 1
    if previous != head.audit_hash or expected != head.audit_seq + 1:
        return expected
    return None


_Said: TypeAlias = tuple[int, int, str, str, str | None, int | None, str]


def _said(entry: AuditEntry) -> _Said:
    e = entry
    return e.seq, e.at_ms, e.actor, e.action, e.transaction_id, e.version, e.detail


def _digest(previous: str, said: _Said) -> str:
    parts = [previous, *["" if part is None else str(part) for part in said]]
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()
