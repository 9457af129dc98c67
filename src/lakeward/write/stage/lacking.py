"""Finds staged files that may lack values of required columns.

Only columns whose rows go to quarantine may lack values, and only until the commit: the rows are
moved while the table has the constraint that says so.
"""

from __future__ import annotations

from collections.abc import Iterable

from lakeward.model.constraints import lenient_ids
from lakeward.model.definition import Definition
from lakeward.model.evolution.fit import Misfit
from lakeward.model.file import DataFile
from lakeward.model.types import Field
from lakeward.write.plan.change import Change


def may_lack(field: Field, files: Iterable[DataFile]) -> bool:
    """Return whether one of the files may have a null in a column, by their statistics."""
    for file in files:
        if field.id in file.partition:
            if file.partition[field.id] is None:
                return True
        elif file.stats is None or file.stats.nulls.get(field.id) != 0:
            return True
    return False


def unguarded(change: Change, after: Definition) -> Misfit | None:
    """Return why added files are wrong under a definition that no longer quarantines their rows."""
    for own_id in sorted(lenient_ids(change.definition) - lenient_ids(after)):
        field = after.schema.by_id.get(own_id)
        if field is not None and not field.nullable and may_lack(field, change.added):
            reason = f"changed what happens to rows without a value of column {field.name}"
            return Misfit(reason, field.name)
    return None
