"""How many rows a commit inserted, updated and deleted, by the metrics that it recorded.

Files that a commit writes again hold many rows that it only moved, so files alone do not tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from lakeward.model.commit import CommitInfo

SAMPLE: Final = 20
"""How many changed rows a comparison shows, unless more are asked for."""
INSERTED: Final = "numInsertedRows"
UPDATED: Final = "numUpdatedRows"
DELETED: Final = "numDeletedRows"
_MERGED: Final = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")
_REWRITING: Final = ("numRemovedFiles", "numDeletionVectorsAdded", "numDeletionVectorsUpdated")


class RowCounts(NamedTuple):
    """Rows that came, that got other values, and that went."""

    inserted: int
    updated: int
    deleted: int

    def plus(self, other: RowCounts) -> RowCounts:
        """The counts of two commits, one after the other."""
        return RowCounts(*(a + b for a, b in zip(self, other, strict=True)))


NO_ROWS: Final = RowCounts(0, 0, 0)


def row_counts(info: CommitInfo) -> RowCounts | None:
    """The rows that a commit changed; None where its metrics do not tell."""
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
    """The metrics that are counts; other engines write them as text."""
    out = {}
    for name, value in metrics.items():
        if isinstance(value, int) or (isinstance(value, str) and value.isdecimal()):
            out[name] = int(value)
    return out
