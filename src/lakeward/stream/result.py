"""What became of an epoch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class EpochResult:
    """An epoch that is in the lake.

    Attributes:
        epoch: Its number.
        replayed: It had been committed before, and what was written now was thrown away.
        transaction_id: The transaction that committed it; None where the log does not tell any
            more which one it was.
        versions: The version of each table that it is in.
        rows: How many were written; of a replayed epoch, how many were thrown away.
        timestamp: When it was committed.
        published: False where a table's files could not be written yet; the commit stands.
    """

    epoch: int
    replayed: bool
    transaction_id: str | None
    versions: Mapping[str, int]
    rows: int
    timestamp: datetime | None = None
    published: bool = True
