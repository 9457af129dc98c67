"""Pins: versions that are being read, and that vacuum must keep until the lease expires."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lakeward.log.database import Database, Session
from lakeward.log.statement import Statement, insertion
from lakeward.log.tables import pin
from lakeward.log.transactions import LEASE_MS

_INSERT = insertion(pin, "")
_DELETE = Statement("DELETE FROM lakeward_pin WHERE pin_id = :pin_id")
_EXTEND = Statement("UPDATE lakeward_pin SET lease_until_ms = :until WHERE pin_id = :id")
_EXPIRE = Statement("DELETE FROM lakeward_pin WHERE lease_until_ms < :now")
_STALE = Statement("SELECT pin_id FROM lakeward_pin WHERE lease_until_ms < :now LIMIT 1")
_HELD = Statement(
    """SELECT min(version) FROM lakeward_pin
    WHERE table_id = :table_id AND lease_until_ms >= :now"""
)
_VERSIONS = Statement(
    """SELECT DISTINCT version FROM lakeward_pin
    WHERE table_id = :table_id AND lease_until_ms >= :now"""
)


def insert(
    session: Session, now: int, *, pin_id: str, actor: str, versions: Mapping[int, int]
) -> None:
    """Pin a version of each table."""
    session.many(
        _INSERT,
        [
            {
                "pin_id": pin_id,
                "table_id": table_id,
                "version": version,
                "actor": actor,
                "lease_until_ms": now + LEASE_MS,
            }
            for table_id, version in versions.items()
        ],
    )


def release(session: Session, pin_id: str) -> None:
    """Delete a pin."""
    session.run(_DELETE, {"pin_id": pin_id})


def extend(database: Database, pin_ids: Iterable[str]) -> None:
    """Renew the leases of pins."""
    with database.write() as session:
        until = database.clock_ms(session) + LEASE_MS
        session.many(_EXTEND, [{"id": i, "until": until} for i in pin_ids])


def any_stale(session: Session, now: int) -> bool:
    """Return whether there are pins whose lease has expired."""
    return session.row(_STALE, {"now": now}) is not None


def expire(session: Session, now: int) -> None:
    """Delete the pins whose lease has expired."""
    session.run(_EXPIRE, {"now": now})


def oldest(session: Session, table_id: int, now: int) -> int | None:
    """Return the oldest version of a table that is pinned under a valid lease, or None."""
    found: int | None = session.row(_HELD, {"table_id": table_id, "now": now})[0]
    return found


def held_versions(session: Session, table_id: int, now: int) -> set[int]:
    """Return the versions of a table that are pinned under a valid lease."""
    params = {"table_id": table_id, "now": now}
    return {row[0] for row in session.rows(_VERSIONS, params)}
