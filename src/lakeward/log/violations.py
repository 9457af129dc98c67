"""Violations of constraints, including those by transactions that failed."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lakeward.log.codec import dumps, loads
from lakeward.log.database import Session
from lakeward.log.statement import Statement, insertion
from lakeward.log.tables import violation
from lakeward.model.clock import now_ms

_RECORDED = itertools.count()
"""Keeps the order of violations that one process records within a millisecond."""
_INSERT = insertion(violation)
_COLUMNS = ", ".join(f"v.{name}" for name in violation.columns)
_NEWEST = Statement(
    f"""SELECT {_COLUMNS}, r.pipeline FROM lakeward_violation v
    LEFT JOIN lakeward_run r ON r.run_id = v.transaction_id
    WHERE :every = '' OR v.table_name = :own ORDER BY v.violation_id DESC LIMIT :limit"""  # noqa: S608  our names
)


@dataclass(frozen=True, slots=True)
class Violation:
    """Rows of one transaction that violated one constraint of a table.

    Attributes:
        action: What was done: `fail`, `quarantine` or `warn`.
        reason: Why the rows violate the constraint, in words.
        sample: A few of the rows, as JSON values.
        at_ms: When the violation was recorded.
        pipeline: The pipeline of which the transaction was a run, if any.
    """

    table: str
    constraint: str
    transaction_id: str
    actor: str
    action: str
    reason: str
    count: int
    sample: Sequence[Any]
    at_ms: int = 0
    pipeline: str | None = None


def insert(session: Session, found: Iterable[Violation]) -> None:
    """Record violations."""
    now = now_ms()
    for one in found:
        session.run(
            _INSERT,
            {
                "violation_id": f"{now:014d}-{next(_RECORDED):08d}-{secrets.token_hex(8)}",
                "at_ms": now,
                "table_name": one.table,
                "constraint_name": one.constraint,
                "transaction_id": one.transaction_id,
                "actor": one.actor,
                "action": one.action,
                "reason": one.reason,
                "row_count": one.count,
                "sample": dumps(list(one.sample)),
            },
        )


def newest(session: Session, table: str | None, limit: int) -> list[Violation]:
    """Return the newest violations, of one table or of all, newest first."""
    name = table or ""
    rows = session.rows(_NEWEST, {"every": name, "own": name, "limit": limit})
    return [_violation(row) for row in rows]


def _violation(row: Any) -> Violation:
    _, at_ms, table, constraint, transaction_id, actor, action, reason, count, sample, name = row
    return Violation(
        table,
        constraint,
        transaction_id,
        actor,
        action,
        reason,
        count,
        loads(sample),
        at_ms,
        name,
    )
