"""Which rows of a change are new, and which files hold them."""

from __future__ import annotations

from lakeward.model.expressions.when import Does
from lakeward.model.file import LoggedFile
from lakeward.write.keys.reading import logged
from lakeward.write.plan.change import Added, Change, RowsChanged


def adds_rows(change: Change) -> bool:
    """Whether a change may bring rows, or keys, that its table did not have."""
    if change.fixed or not change.steps:
        return bool(change.added)
    return any(not isinstance(s, RowsChanged) or _writes(s) for s in change.steps)


def movable_files(change: Change) -> set[str]:
    """The paths of files that a change adds and all of whose rows are new."""
    added = {f.path for f in change.added}
    if change.fixed:
        return set() if change.removed else added
    steps = (s.files for s in change.steps if isinstance(s, Added))
    return added & {f.path for files in steps for f in files}


def new_files(change: Change) -> list[LoggedFile]:
    """The files of a change with rows that are new or were moved; files marked in place are not."""
    marked = {} if change.fixed else marked_files(change)
    new = logged(change.added, change.head.version + 1)
    return [f for f in new if f.path not in marked]


def marked_files(change: Change) -> dict[str, LoggedFile]:
    """The files of which rows were deleted in place, as they are after the change."""
    gone = {f.path for f in change.removed.values()}
    new = logged(change.added, change.head.version + 1)
    return {f.path: f for f in new if f.path in gone}


def _writes(step: RowsChanged) -> bool:
    clauses = (*step.plan.matched, *step.plan.not_matched, *step.plan.unmatched_target)
    return any(clause.does is not Does.DELETE for clause in clauses)
