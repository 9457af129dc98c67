"""Finds which rows of a change are new, and which files contain them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from lakeward.model.constraints import foreign_keys
from lakeward.model.expressions.when import Does
from lakeward.model.file import LoggedFile
from lakeward.write.keys.reading import logged
from lakeward.write.plan.change import Added, Change, RowsChanged
from lakeward.write.plan.origins import Kind


def adds_rows(change: Change) -> bool:
    """Return whether a change may add rows, or keys, that its table did not have."""
    if change.fixed or not change.steps:
        return bool(change.added)
    return any(not isinstance(s, RowsChanged) or _writes(s) for s in change.steps)


def movable_files(change: Change) -> set[str]:
    """Return the paths of files that a change adds and that contain only new rows."""
    added = {f.path for f in change.added}
    if change.fixed:
        return set() if change.removed else added
    steps = (s.files for s in change.steps if isinstance(s, Added))
    return added & {f.path for files in steps for f in files}


def kinds_of(change: Change, path: str, positions: Sequence[int]) -> NDArray[np.int64]:
    """Return the `Kind` of rows of an added file; `KEPT` for rows whose origins are unknown."""
    if path in movable_files(change):
        return np.full(len(positions), Kind.NEW, np.int64)
    if change.origins is None or not change.origins.knows(path):
        return np.full(len(positions), Kind.KEPT, np.int64)
    return change.origins.kinds(path, positions)


def new_files(change: Change) -> list[LoggedFile]:
    """Return the added files, without files in which rows were only deleted in place."""
    marked = marked_files(change)
    new = logged(change.added, change.head.version + 1)
    return [f for f in new if f.path not in marked]


def marked_files(change: Change) -> dict[str, LoggedFile]:
    """Return the files in which rows were deleted in place, as they are after the change, by path.

    Empty for a change that was made without steps and whose rows have no known origins.
    """
    if change.fixed and change.origins is None:
        return {}
    gone = {f.path for f in change.removed.values()}
    new = logged(change.added, change.head.version + 1)
    return {f.path: f for f in new if f.path in gone}


def parents_first(changes: Iterable[Change]) -> list[Change]:
    """Return changes in an order in which tables come after those that they refer to."""
    by_name = {str(change.head.name): change for change in changes}
    found: dict[str, Change] = {}
    visited: set[str] = set()

    def visit(name: str) -> None:
        change = by_name.get(name)
        if change is None or name in visited:
            return
        visited.add(name)
        for key in foreign_keys(change.new_definition or change.definition).values():
            visit(key.references)
        found[name] = change

    for name in by_name:
        visit(name)
    return list(found.values())


def _writes(step: RowsChanged) -> bool:
    clauses = (*step.plan.matched, *step.plan.not_matched, *step.plan.unmatched_target)
    return any(clause.does is not Does.DELETE for clause in clauses)
