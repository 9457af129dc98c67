"""Restores a table to an older version, as a new version: no file is copied.

Files that the older version has and the newest lacks are added again, with the deletion vectors
that they had; files that the older version lacks are removed. Both are found by version ranges,
without listing either version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakeward.context import LakeContext
from lakeward.errors import VersionNotFound
from lakeward.formats.registry import format_of
from lakeward.log import definitions, files, retired
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.file import LoggedFile
from lakeward.read.presence import missing, oldest_working
from lakeward.write.plan.change import Change, Operation


@dataclass(frozen=True, slots=True)
class TableChange:
    """The effect of a restore or undo on one table.

    Attributes:
        table: The table's name.
        version: The newest version, which stays in the history.
        to_version: The version that is restored; for an undo, the one before the transaction.
        files_added: How many files are added again.
        files_removed: How many files are removed.
        rows_added: Rows in files that are added again; None if the log has no count.
        rows_removed: Rows in removed files; None if the log has no count.
        is_evolved: Whether columns, properties or constraints change.
        added_files: Paths of the files that are added again, maybe with another deletion vector.
        removed_files: Paths of the files that are removed.
    """

    table: str
    version: int
    to_version: int
    files_added: int
    files_removed: int
    rows_added: int | None
    rows_removed: int | None
    is_evolved: bool
    added_files: tuple[str, ...] = field(default=(), repr=False)
    removed_files: tuple[str, ...] = field(default=(), repr=False)

    @property
    def is_empty(self) -> bool:
        """Whether nothing changes, because the table already has the requested state."""
        return not (self.files_added or self.files_removed or self.is_evolved)


@dataclass(frozen=True, slots=True)
class Step:
    """The files and the definition that a restore or undo changes.

    Attributes:
        head: The head of the table at the version to change.
        back: Files to add again unchanged.
        gone: Files to remove.
        definition: The new definition; None if it does not change.
        to_version: As in `TableChange`.
    """

    head: Head
    back: Sequence[LoggedFile]
    gone: Sequence[LoggedFile]
    definition: Definition | None
    to_version: int

    @property
    def gone_paths(self) -> set[str]:
        """Paths of files that are removed, or get another deletion vector."""
        return {f.path for f in self.gone}

    def record(self) -> TableChange:
        """Return the step as a record for users."""
        return TableChange(
            str(self.head.name),
            self.head.version,
            self.to_version,
            len(self.back),
            len(self.gone),
            _rows(self.back),
            _rows(self.gone),
            self.definition is not None,
            tuple(f.path for f in self.back),
            tuple(f.path for f in self.gone),
        )


def restoring(context: LakeContext, session: Session, head: Head, version: int) -> Step:
    """Return the step that restores a table from the version of a head to an older one.

    Raises `VersionNotFound` if a needed file was deleted.
    """
    check_readable(context, session, head, version)
    back = files.removed_since(session, head.table_id, version, head.version)
    gone = list(files.at(session, head.table_id, head.version, after=version))
    back, gone = without_common(head, back, gone)
    check_present(context, session, head, version, back)
    _, now = definitions.at(session, head.table_id, head.version)
    _, then = definitions.at(session, head.table_id, version)
    wanted = format_of(head).restored(now, then) if then != now else now
    return Step(head, back, gone, wanted if wanted != now else None, version)


def check_readable(context: LakeContext, session: Session, head: Head, version: int) -> None:
    """Raise `VersionNotFound` for a vacuumed version; its hint has the oldest restorable one."""
    try:
        retired.check(session, head, version)
    except VersionNotFound as error:
        oldest = oldest_working(context, session, head)
        hint = f"Nothing was changed. The oldest version that can be restored is {oldest}."
        facts = {**error.facts, "oldest_version": oldest}
        raise VersionNotFound(error.what, hint=hint, **facts) from error


def without_common(
    head: Head, back: Sequence[LoggedFile], gone: Sequence[LoggedFile]
) -> tuple[list[LoggedFile], list[LoggedFile]]:
    """Return the lists `back` and `gone` without files that both have: they do not change."""
    names = format_of(head)

    def identity(file: LoggedFile) -> tuple[str, str | None]:
        vector = file.file.deletion_vector
        return file.path, None if vector is None else names.vector_id(vector)

    common = {identity(f) for f in back} & {identity(f) for f in gone}
    order = sorted(gone, key=lambda f: (f.added, f.ordinal))
    return (
        [f for f in back if identity(f) not in common],
        [f for f in order if identity(f) not in common],
    )


def check_present(
    context: LakeContext, session: Session, head: Head, version: int, wanted: Sequence[LoggedFile]
) -> None:
    """Raise `VersionNotFound` if a file is missing; its hint has the oldest restorable version."""
    lost = missing(context, head, wanted)
    if not lost:
        return
    oldest = oldest_working(context, session, head)
    what = (
        f"Version {version} of table {head.name} cannot be restored:"
        f" {len(lost)} of its files are gone, {lost[0].path!r} first."
    )
    hint = f"Nothing was changed. The oldest version that can be restored is {oldest}."
    raise VersionNotFound(
        what,
        hint=hint,
        table=str(head.name),
        version=version,
        oldest_version=oldest,
        path=lost[0].path,
    )


def apply(change: Change, step: Step, operation: str, parameters: Mapping[str, Any]) -> None:
    """Replace a table's pending change with a step."""
    change.added[:] = [f.file for f in step.back]
    change.removed.clear()
    for file in step.gone:
        change.remove(file)
    change.change_files.clear()
    change.recorded_change_files.clear()
    change.steps.clear()
    change.claims.clear()
    change.fixed = True
    told = step.record()
    metrics = {
        "numRestoredFiles": told.files_added,
        "numRemovedFiles": told.files_removed,
        "restoredFilesSize": sum(f.size for f in step.back),
        "removedFilesSize": sum(f.size for f in step.gone),
    }
    change.operations[:] = [Operation(operation, parameters, metrics)]
    change.new_definition = step.definition


def _rows(found: Sequence[LoggedFile]) -> int | None:
    counts = [f.file.live_rows for f in found]
    return None if None in counts else sum(n or 0 for n in counts)
