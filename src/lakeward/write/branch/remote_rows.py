"""Checks the rows and files of a commit whose document a REST client wrote itself.

The lake does not carry out such a commit, so it cannot check constraints that compare rows with
those of other files, or that move rows elsewhere: it refuses new rows where there are any.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput, UnsupportedFeature
from lakeward.log import files, retired
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.model.constraints import declared
from lakeward.model.definition import Definition
from lakeward.model.evolution.uses import columns_of
from lakeward.model.file import LoggedFile
from lakeward.model.history import ForeignActions
from lakeward.read.presence import missing
from lakeward.write.branch.remote import blaming_files
from lakeward.write.plan.change import Change
from lakeward.write.stage.added_files import check_rows
from lakeward.write.stage.checks import check_deletable


def check_allowed(head: Head, definition: Definition, found: Sequence[ForeignActions]) -> None:
    """Check that a table allows the changes of rows and columns that commits make.

    `definition` is the table's definition before the commits.

    Raises:
        UnsupportedFeature: The table is append-only and rows are removed, or it has constraints
            that rows would have to be checked against, or whose columns are changed.
    """
    for one in found:
        if one.definition is not None:
            _check_columns(head, definition, one.definition)
    if any(one.removed and one.info.data_change for one in found):
        check_deletable(Change(head, definition))
    if not any(one.added or one.removed for one in found):
        return
    if declared(definition) or definition.rules:
        what = f"Table {head.name} has constraints, by which rows of this commit are not checked."
        hint = "Commit columns and rows one after the other, and rewrite files to delete rows."
        raise UnsupportedFeature(what, hint=hint, table=str(head.name))


def _check_columns(head: Head, before: Definition, after: Definition) -> None:
    """Raise `UnsupportedFeature` if a column that a constraint needs is dropped or changed."""
    for name, one in declared(before).items():
        needed, there = columns_of(one, before.schema), columns_of(one, after.schema)
        lost = next((path for path in needed if needed[path] != there.get(path)), None)
        if lost is not None:
            what = (
                f"The commit drops or changes a column of table {head.name}:"
                f" constraint {name} needs column {lost}."
            )
            hint = "Drop the constraint first, or alter the table with `lakeward alter`."
            facts = {"table": str(head.name), "column": lost, "constraint": name}
            raise UnsupportedFeature(what, hint=hint, **facts)


def check_present(
    context: LakeContext, session: Session, head: Head, found: Sequence[ForeignActions]
) -> None:
    """Raise `InvalidInput` if files that commits add are missing, or will be deleted by vacuum.

    Vacuum retires versions while it holds the lock of the head, so the answer is final only if this
    session holds it. A document still lists snapshots whose files were vacuumed.
    """
    wanted = [LoggedFile(f, one.version, n) for one in found for n, f in enumerate(one.added)]
    gone = {
        f.path
        for f in wanted
        # A live file that gets other deletes may have had versions without them, now retired.
        if retired.has_path(session, head.table_id, f.path)
        and not files.live_at_path(session, head.table_id, f.path)
    }
    gone |= {f.path for f in missing(context, head, wanted)}
    if gone:
        path = min(gone)
        what = f"The commit adds file {path} to table {head.name}, which is missing or vacuumed."
        hint = "`lakeward restore` brings back versions that can still be read."
        raise InvalidInput(what, hint=hint, table=str(head.name), path=path)


def check_required(
    context: LakeContext, head: Head, definition: Definition, found: Sequence[ForeignActions]
) -> None:
    """Read the rows that commits add; check required and generated columns.

    `definition` is the table's definition before the commits.

    Raises:
        InvalidInput: A data file is missing or damaged.
        ConstraintViolation: A row has no value in a required column.
    """
    new = [f for one in found for f in one.added if f.path not in {p for p, _ in one.removed}]
    after = next((one.definition for one in reversed(found) if one.definition), definition)
    with blaming_files(head.name):
        check_rows(context.storage, Change(head, after), new)
