"""Violations of constraints, as recorded in the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lakeward.log import violations
from lakeward.log.database import Session
from lakeward.model.clock import to_datetime


@dataclass(frozen=True, slots=True)
class ViolationRecord:
    """Rows of one transaction that violated one constraint.

    Attributes:
        at: When it was recorded.
        table: The table that has the constraint.
        constraint: The constraint's name; `COLUMN is not null` for a required column.
        action: `fail`: the transaction failed. `quarantine`: the rows were written to the
            quarantine table. `warn`: the rows are in the table.
        count: How many rows violated it.
        reason: A description of the violation.
        sample: A few of the rows.
        transaction_id: The transaction, which may have failed.
        pipeline: The pipeline that ran the transaction; None if none did.
        actor: Who ran it.
    """

    at: datetime
    table: str
    constraint: str
    action: str
    count: int
    reason: str
    sample: Sequence[Mapping[str, Any]]
    transaction_id: str
    pipeline: str | None
    actor: str


def newest(session: Session, table: str | None, limit: int) -> list[ViolationRecord]:
    """Return the newest violations, of one table or of all, newest first."""
    return [
        ViolationRecord(
            to_datetime(v.at_ms),
            v.table,
            v.constraint,
            v.action,
            v.count,
            v.reason,
            tuple(v.sample),
            v.transaction_id,
            v.pipeline,
            v.actor,
        )
        for v in violations.newest(session, table, limit)
    ]
