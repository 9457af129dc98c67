"""The newest committed transactions of a lake, each with what it did to its tables."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from lakeward.log import positions
from lakeward.log.database import Session
from lakeward.log.positions import Named
from lakeward.model.clock import to_datetime
from lakeward.model.row_counts import RowCounts, row_counts

_MOST_COMMITS: Final = 1000


@dataclass(frozen=True, slots=True)
class RecentTableChange:
    """What a transaction did to one table.

    Attributes:
        table: The name of the table now, or its last one if it was dropped.
        version: The version that the transaction made.
        operation: The operation that the commit records.
        changed: Rows that were inserted, updated and deleted; None if the commit does not record
            it.
        is_dropped: Whether the table was dropped since.
    """

    table: str
    version: int
    operation: str
    changed: RowCounts | None
    is_dropped: bool


@dataclass(frozen=True, slots=True)
class RecentChange:
    """A committed transaction.

    Attributes:
        members: How many tables it changed, also if `tables` has fewer.
        tables: What it did to each table.
    """

    transaction_id: str
    timestamp: datetime
    actor: str
    message: str | None
    members: int
    tables: tuple[RecentTableChange, ...]


def recent_changes(session: Session, since_ms: int, limit: int) -> list[RecentChange]:
    """Return the newest transactions that were committed at or after a time, newest first."""
    found = positions.recent(session, limit, _MOST_COMMITS)
    return [_change(group) for group in found if group[0].commit.timestamp_ms >= since_ms]


def _change(group: list[Named]) -> RecentChange:
    first = group[0].commit
    return RecentChange(
        transaction_id=first.info.transaction_id,
        timestamp=to_datetime(first.timestamp_ms),
        actor=first.info.actor,
        message=first.info.message,
        members=max(first.info.members, len(group)),
        tables=tuple(
            RecentTableChange(
                table=str(one.table),
                version=one.commit.version,
                operation=one.commit.info.operation,
                changed=row_counts(one.commit.info),
                is_dropped=one.is_dropped,
            )
            for one in group
        ),
    )
