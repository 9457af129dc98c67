"""The audit trail: who did what and when, one hash chain per table.

An entry's hash covers the entry and the hash before it, and the head row holds the last one, so an
entry that is changed, removed or inserted breaks the chain. A chain per table needs no lock beyond
those that a commit holds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, NotRequired, TypeAlias, TypedDict, Unpack

from lakeward.log.codec import dumps
from lakeward.log.database import Session
from lakeward.log.statement import Statement, insertion
from lakeward.log.tables import audit
from lakeward.model.commit import Commit, CommitInfo, Head
from lakeward.model.names import TableName

GENESIS: Final = ""
_NO_DETAIL: Final = dumps({})

_INSERT = insertion(audit, "")
_OF_TABLE = Statement(
    """SELECT seq, at_ms, actor, action, transaction_id, version, detail, hash
    FROM lakeward_audit WHERE table_id = :table_id ORDER BY seq"""
)


_FOUND = Statement(
    """SELECT a.seq, a.at_ms, a.actor, a.action, a.transaction_id, a.version, a.detail, a.hash,
        h.namespace, h.name
    FROM lakeward_audit a JOIN lakeward_head h ON h.table_id = a.table_id
    WHERE (:every_table = 1 OR (h.namespace = :namespace AND h.name = :name))
        AND (:every_actor = 1 OR a.actor = :actor) AND (:every_action = 1 OR a.action = :action)
        AND a.at_ms >= :since AND a.at_ms <= :until
    ORDER BY a.at_ms DESC, a.table_id DESC, a.seq DESC LIMIT :limit"""
)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One action on a table."""

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
    """The last entry of a table's chain, as stored in the table's head row."""

    seq: int
    hash: str


class Anchor(NamedTuple):
    """An entry of a trail as it is in a published commit: `number:hash:trail`.

    `trail` is empty in commits that were published before anchors named their trail.
    """

    number: int
    hash: str
    trail: str

    @classmethod
    def of_text(cls, text: str) -> Anchor:
        """Return the anchor that a text contains; one of no entry if it cannot be understood."""
        number, _, rest = text.partition(":")
        digest, _, trail = rest.partition(":")
        return cls(int(number) if number.isdecimal() else 0, digest, trail)


def trail_of(store: str, table_id: int) -> str:
    """Return the id of a table's trail, which no other trail of any store has."""
    return f"{store}.{table_id}" if store else ""


def anchor_of(head: Head, store: str, info: CommitInfo, version: int, at_ms: int) -> str:
    """Return the entry that a commit will add to its table's trail, as `number:hash:trail`.

    Its hash covers all entries before it.
    """
    seq = head.audit_seq + 1
    content = (seq, at_ms, info.actor, info.operation, info.transaction_id, version, _NO_DETAIL)
    return f"{seq}:{_digest(head.audit_hash, content)}:{trail_of(store, head.table_id)}"


def add_commit(session: Session, head: Head, commit: Commit) -> Link:
    """Append the entry of a commit to its table's chain: the one that `anchor_of` returned."""
    return add(
        session,
        head,
        at_ms=commit.timestamp_ms,
        actor=commit.info.actor,
        action=commit.info.operation,
        transaction_id=commit.info.transaction_id,
        version=commit.version,
    )


def record(session: Session, head: Head, **entry: Unpack[_Entry]) -> Head:
    """Append an entry to a table's chain; return the changed head, which the caller must store."""
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
    """Append an entry to a table's chain; return the link, which the caller stores in the head."""
    seq, text = head.audit_seq + 1, dumps(detail) if detail else _NO_DETAIL
    content = (seq, at_ms, actor, action, transaction_id, version, text)
    digest = _digest(head.audit_hash, content)
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
    """Yield the entries of a table's trail, oldest first."""
    for chunk in session.stream(_OF_TABLE, {"table_id": table_id}):
        for row in chunk:
            yield AuditEntry(*row)


def found(
    session: Session,
    *,
    table: TableName | None,
    actor: str | None,
    action: str | None,
    since_ms: int,
    until_ms: int,
    limit: int,
) -> list[tuple[TableName, AuditEntry]]:
    """Return the newest entries that match all filters, newest first; dropped tables included."""
    given = {
        "every_table": int(table is None),
        "namespace": "" if table is None else table.namespace,
        "name": "" if table is None else table.name,
        "every_actor": int(actor is None),
        "actor": actor or "",
        "every_action": int(action is None),
        "action": action or "",
        "since": since_ms,
        "until": until_ms,
        "limit": limit,
    }
    rows = session.rows(_FOUND, given)
    return [(TableName(*row[8:]), AuditEntry(*row[:8])) for row in rows]


def broken_at(session: Session, head: Head) -> int | None:
    """Return the number of the first entry that breaks the chain; None if it is intact."""
    previous, expected = GENESIS, 1
    for entry in entries(session, head.table_id):
        if entry.seq != expected or entry.hash != _digest(previous, _content(entry)):
            return expected
        previous, expected = entry.hash, expected + 1
    if previous != head.audit_hash or expected != head.audit_seq + 1:
        return expected
    return None


_Content: TypeAlias = tuple[int, int, str, str, str | None, int | None, str]


def _content(entry: AuditEntry) -> _Content:
    e = entry
    return e.seq, e.at_ms, e.actor, e.action, e.transaction_id, e.version, e.detail


def _digest(previous: str, content: _Content) -> str:
    parts = [previous, *["" if part is None else str(part) for part in content]]
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()
