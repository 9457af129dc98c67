"""What a change of rows did, in numbers: for its caller, and for the commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from lakeward.model.expressions.when import Clause, Clauses


@dataclass(frozen=True, slots=True)
class RowChanges:
    """What an update or a merge did; None where the engine does not tell, which only Spark does.

    Attributes:
        inserted: Rows that are new.
        updated: Rows that were given new values.
        deleted: Rows that are gone.
        files_touched: Files in which rows changed.
        files_skipped: Files that were left as they are.
    """

    inserted: int | None = 0
    updated: int | None = 0
    deleted: int | None = 0
    files_touched: int | None = 0
    files_skipped: int | None = 0


def merge_metrics(done: RowChanges, given: int, copied: int) -> dict[str, int | None]:
    """The numbers of a merge, under the names that Delta uses."""
    return {
        "numSourceRows": given,
        "numTargetRowsInserted": done.inserted,
        "numTargetRowsUpdated": done.updated,
        "numTargetRowsDeleted": done.deleted,
        "numTargetRowsCopied": copied,
        "numTargetFilesRemoved": done.files_touched,
        "numTargetFilesSkipped": done.files_skipped,
    }


def update_metrics(done: RowChanges, copied: int) -> dict[str, int | None]:
    """The numbers of an update, under the names that Delta uses."""
    return {
        "numUpdatedRows": done.updated,
        "numCopiedRows": copied,
        "numTouchedFiles": done.files_touched,
        "numSkippedFiles": done.files_skipped,
    }


def merge_told(on: str | Sequence[str], clauses: Clauses) -> dict[str, Any]:
    """What history shows of a merge, under the names that Delta uses."""
    named = {
        "matchedPredicates": clauses.matched,
        "notMatchedPredicates": clauses.not_matched,
        "notMatchedBySourcePredicates": clauses.not_matched_by_source,
    }
    told = {name: orjson.dumps(list(map(_told, found))).decode() for name, found in named.items()}
    return {"predicate": on if isinstance(on, str) else ", ".join(on), **told}


def _told(clause: Clause) -> dict[str, str]:
    condition = {} if clause.condition is None else {"predicate": clause.condition}
    return {**condition, "actionType": clause.does.value}
