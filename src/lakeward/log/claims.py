"""Claims of maintenance runs: other runs skip what one run has claimed.

A claim is valid while its transaction is open and its lease has not expired, so the claims of a
dead process end by themselves.
"""

from __future__ import annotations

from collections.abc import Iterable

from lakeward.log.database import Session
from lakeward.log.statement import Statement

_TAKE = Statement(
    """INSERT INTO lakeward_claim (name, transaction_id) VALUES (:name, :own)
    ON CONFLICT (name) DO UPDATE SET transaction_id = :own
    WHERE NOT EXISTS (SELECT 1 FROM lakeward_transaction t
      WHERE t.transaction_id = lakeward_claim.transaction_id
        AND t.state = 'open' AND t.lease_until_ms >= :now)"""
)
_OWNER = Statement("SELECT transaction_id FROM lakeward_claim WHERE name = :name")
_RELEASE = Statement("DELETE FROM lakeward_claim WHERE transaction_id = :own")


def take(session: Session, names: Iterable[str], transaction_id: str, now: int) -> set[str]:
    """Claim names for an open transaction; return those that no other live transaction holds."""
    taken = set()
    for name in names:
        session.run(_TAKE, {"name": name, "own": transaction_id, "now": now})
        if session.row(_OWNER, {"name": name})[0] == transaction_id:
            taken.add(name)
    return taken


def release(session: Session, transaction_id: str) -> None:
    """Release all claims of a transaction."""
    session.run(_RELEASE, {"own": transaction_id})
