"""How many rows a commit inserted, updated and deleted, by the metrics that it recorded.

Files that a commit rewrites contain many unchanged rows, so files alone do not tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from lakeward.model.commit import CommitInfo

SAMPLE: Final = 20
"""How many changed rows a comparison shows by default."""
INSERTED: Final = "numInsertedRows"
UPDATED: Final = "numUpdatedRows"
DELETED: Final = "numDeletedRows"
_MERGED: Final = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")
_REWRITING: Final = ("numRemovedFiles", "numDeletionVectorsAdded", "numDeletionVectorsUpdated")


class RowCounts(NamedTuple):
    """The numbers of rows that were inserted, updated and deleted."""

    inserted: int
    updated: int
    deleted: int

    def plus(self, other: RowCounts) -> RowCounts:
        """Return the sums of the counts of two commits."""
        return RowCounts(*(a + b for a, b in zip(self, other, strict=True)))


NO_ROWS: Final = RowCounts(0, 0, 0)


def row_counts(info: CommitInfo) -> RowCounts | None:
    """Return how many rows a commit changed; None if its metrics do not tell."""
    if not info.data_change:
        return NO_ROWS
    known = whole_numbers(info.metrics)
    if all(name in known for name in (INSERTED, UPDATED, DELETED)):
        return RowCounts(known[INSERTED], known[UPDATED], known[DELETED])
    match info.operation:
        case "UPDATE":
            return RowCounts(0, known[UPDATED], 0) if UPDATED in known else None
        case "DELETE":
            return RowCounts(0, 0, known[DELETED]) if DELETED in known else None
        case "MERGE":
            merged = [known.get(name) for name in _MERGED]
            found = [count for count in merged if count is not None]
            return RowCounts(*found) if len(found) == len(_MERGED) else None
        case "TRANSACTION":
            return None
    if "numOutputRows" not in known:
        return None
    if not any(known.get(name) for name in _REWRITING):
        return RowCounts(known["numOutputRows"], 0, 0)
    return None


def whole_numbers(metrics: Mapping[str, Any]) -> dict[str, int]:
    """Return the metrics that are whole numbers, as integers; other engines write them as text."""
    out = {}
    for name, value in metrics.items():
        if isinstance(value, int) or (isinstance(value, str) and value.isdecimal()):
            out[name] = int(value)
    return out
