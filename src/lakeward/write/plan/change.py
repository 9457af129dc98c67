"""The pending change of one table: added and removed files, predicates read, and operations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import orjson

from lakeward.errors import UnsupportedFeature
from lakeward.model.commit import AppTransaction, Head, Return
from lakeward.model.constraints import has_late_checks
from lakeward.model.definition import Definition
from lakeward.model.expressions.nodes import Expression
from lakeward.model.expressions.when import Clause, Clauses
from lakeward.model.file import DataFile, LoggedFile
from lakeward.model.row_counts import DELETED, INSERTED, UPDATED, whole_numbers
from lakeward.write.plan.origins import Origins
from lakeward.write.plan.row_plan import RowPlan

ALTER: Final = "ALTER TABLE"
"""The operation of changes of a definition; its parameter `changes` lists them in order."""


@dataclass
class Change:
    """The pending change of one table.

    Attributes:
        head: The table as the transaction sees it: the base version.
        definition: The definition at the base version.
        added: Staged files.
        removed: Files of the base version to remove.
        change_files: Files of the change feed that the commit publishes; see `Commit`.
        recorded_change_files: Change files that steps wrote. `feed.finish` publishes them if they
            describe the whole change.
        data_change: Whether rows change; False if they are only moved to other files.
        new_definition: The new definition, if it changes.
        scopes: Predicates whose rows are replaced or removed; None for all rows. A file that
            another transaction adds in such a scope is a conflict.
        reads: Predicates that were read; serializable transactions check them.
        claims: Paths of files that were not written for this transaction and must not be in the
            table already.
        app_transactions: Application transactions to record.
        domains: Domain metadata to set, or to remove where it is None.
        origins: The origins of rewritten rows, if changed rows may have to be restored.
        rejected: How many rows were restored, or left out, because they violated a constraint.
        overrides: Whether rows of other transactions were removed besides the steps, because
            `LastWriterWins` resolved a conflict.
        steps: The changes of rows, in order, which can be replayed on a newer version.
        fixed: Whether files were added or removed outside of the steps: removed by their paths, or
            by a branch. Such a change cannot be replayed on another version.
        exact: Whether the change may be committed only directly after its base version.
        moves: The parts of a compaction; a part whose files others changed is left out.
        operations: The operations that were requested, in order.
        returns: The version whose files a restore adds again, if the change is one.
        put_back_from: The oldest version whose files are restored, after a compaction moved them.
        metadata_files: Metadata files written for the change; nothing refers to them until it is
            ratified.
        properties: Properties of this table's commit only, besides those of the transaction.
        extra: Information of the table's format about the commit; see `CommitInfo`.
    """

    head: Head
    definition: Definition
    added: list[DataFile] = field(default_factory=list)
    removed: dict[tuple[int, int], LoggedFile] = field(default_factory=dict)
    change_files: list[DataFile] = field(default_factory=list)
    recorded_change_files: list[DataFile] = field(default_factory=list)
    data_change: bool = True
    new_definition: Definition | None = None
    scopes: list[Expression | None] = field(default_factory=list)
    reads: list[Expression | None] = field(default_factory=list)
    claims: list[str] = field(default_factory=list)
    app_transactions: list[AppTransaction] = field(default_factory=list)
    domains: dict[str, str | None] = field(default_factory=dict)
    origins: Origins | None = None
    rejected: int = 0
    overrides: bool = False
    steps: list[Step] = field(default_factory=list)
    fixed: bool = False
    exact: bool = False
    moves: list[Move] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    returns: Return | None = None
    put_back_from: int | None = None
    metadata_files: list[str] = field(default_factory=list)
    properties: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, Any] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to commit."""
        return not (
            self.added
            or self.removed
            or self.new_definition
            or self.app_transactions
            or self.domains
            or self.operations
        )

    @property
    def is_new(self) -> bool:
        """Whether the transaction creates the table."""
        return self.head.version < 0

    @property
    def may_violate_keys(self) -> bool:
        """Whether constraints of the complete change must be checked before the commit."""
        new = self.new_definition
        if new is not None and (not self.is_new or has_late_checks(new)):
            return True
        changes_rows = self.data_change and bool(self.added or self.removed)
        return changes_rows and has_late_checks(self.definition)

    @property
    def is_blind(self) -> bool:
        """Whether the change only adds rows, without having read the table."""
        return not (self.removed or self.scopes or self.reads or self.new_definition)

    @property
    def is_replayable(self) -> bool:
        """Whether the steps are all changes of rows, so that they can be replayed."""
        has_files = bool(self.added or self.removed or self.change_files)
        return not (self.fixed or self.rejected) and (bool(self.steps) or not has_files)

    @property
    def source(self) -> Return | None:
        """The version of restored files; not exact if rows were changed after the restore."""
        if self.returns is None or not self.steps:
            return self.returns
        return Return(self.returns.version, exact=False)

    def check_replayable(self, head: Head) -> None:
        """Raise `UnsupportedFeature` if the change cannot be repeated on another version.

        This is so if its steps do not describe all its changes, so that a repetition would lose
        rows. Callers check `is_replayable` first and raise the conflict.
        """
        if self.is_replayable:
            return
        name, base = str(self.head.name), self.head.version
        what = (
            f"The change of table {name} was made for version {base}"
            f" and cannot be made again on version {head.version}."
        )
        hint = "Nothing was committed. Run the transaction again; lake.run does so by itself."
        raise UnsupportedFeature(what, hint=hint, table=name, version=head.version)

    def remove(self, file: LoggedFile) -> None:
        """Record that the change removes a file of the base version."""
        self.removed[file.added, file.ordinal] = file


@dataclass(frozen=True, slots=True)
class Move:
    """Files whose rows were rewritten unchanged, and the files that contain them now."""

    removed: tuple[LoggedFile, ...]
    added: tuple[DataFile, ...]


@dataclass(frozen=True, slots=True)
class Added:
    """A step that added files.

    Attributes:
        files: The files.
        key: The columns by which rows of the files replaced rows of the table; empty if they did
            not.
    """

    files: tuple[DataFile, ...]
    key: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RowsChanged:
    """A step that executed a plan for rows.

    Attributes:
        plan: The plan.
        operation: The index in `operations` of the operation that the plan executes, which gets its
            metrics; None if the step deletes rows as a part of another operation.
    """

    plan: RowPlan
    operation: int | None = None


Step: TypeAlias = Added | RowsChanged


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of the user, for the history; with metrics if the engine reports them."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)


def write_operation(mode: str, change: Change, where: str | None = None) -> Operation:
    """Return the operation WRITE, for the history of a change that wrote rows."""
    parameters = {"mode": mode}
    if change.definition.partition_by:
        parameters["partitionBy"] = ",".join(change.definition.partition_names)
    if where is not None:
        parameters["predicate"] = where
    return Operation("WRITE", parameters)


def progress_operation(recorded: AppTransaction) -> Operation:
    """Return the operation of a commit that only records the progress of an application."""
    return Operation("TXN", {"appId": recorded.app_id})


def summary(change: Change) -> Operation:
    """Return one operation for the whole change: the only one, or one that lists all names."""
    if len(change.operations) == 1:
        return change.operations[0]
    names = list(dict.fromkeys(o.name for o in change.operations))
    if len(names) == 1:
        return Operation(names[0], change.operations[-1].parameters)
    altered = next((o for o in change.operations if o.name == ALTER), None)
    changes = {} if altered is None else dict(altered.parameters)
    return Operation("TRANSACTION", {"operations": ", ".join(names), **changes})


def metrics(change: Change) -> dict[str, Any]:
    """Return the metrics of the change, under the names that Delta uses."""
    before = {f.path: f for f in change.removed.values()} if change.removed else {}
    new = [f for f in change.added if f.path not in before] if before else change.added
    out: dict[str, Any] = {
        "numFiles": len(new),
        "numOutputRows": sum([f.logged_rows for f in new]),
        "numOutputBytes": sum([f.size for f in new]),
    }
    if before:
        out.update(_removed(change, before))
    if change.operations and all(o.name == "DELETE" for o in change.operations):
        out.update(_deleted(change, new))
    if len(change.operations) == 1:
        (only,) = change.operations
        counts_of = _counted(change) if only.parameters.get("mode") == "Overwrite" else {}
        return out | counts_of | dict(only.metrics)
    counts: Counter[str] = Counter()
    for operation in change.operations:
        counts.update({n: v for n, v in operation.metrics.items() if isinstance(v, int)})
    return {**counts, **out, **_counted(change)}


@dataclass(frozen=True, slots=True)
class RowChanges:
    """Counts of an operation; a count is None if it is not known.

    Spark does not report all of them, and the log of an adopted table may lack row counts.

    Attributes:
        inserted: Rows that are new.
        updated: Rows that got new values.
        deleted: Rows that were deleted.
        files_touched: Files in which rows changed.
        files_skipped: Files that were not changed.
    """

    inserted: int | None = 0
    updated: int | None = 0
    deleted: int | None = 0
    files_touched: int | None = 0
    files_skipped: int | None = 0


def merge_metrics(done: RowChanges, given: int, copied: int) -> dict[str, int | None]:
    """Return the metrics of a merge, under the names that Delta uses.

    `given` is the number of source rows; `copied` that of unchanged rows in rewritten files.
    """
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
    """Return the metrics of an update, under the names that Delta uses."""
    return {
        "numUpdatedRows": done.updated,
        "numCopiedRows": copied,
        "numTouchedFiles": done.files_touched,
        "numSkippedFiles": done.files_skipped,
    }


def merge_parameters(on: str | Sequence[str], clauses: Clauses) -> dict[str, Any]:
    """Return the parameters of a merge for the history, under the names that Delta uses."""
    named = {
        "matchedPredicates": clauses.matched,
        "notMatchedPredicates": clauses.not_matched,
        "notMatchedBySourcePredicates": clauses.not_matched_by_source,
    }
    shown = {
        name: orjson.dumps(list(map(_clause_record, found))).decode()
        for name, found in named.items()
    }
    return {"predicate": on if isinstance(on, str) else ", ".join(on), **shown}


def _clause_record(clause: Clause) -> dict[str, str]:
    condition = {} if clause.condition is None else {"predicate": clause.condition}
    return {**condition, "actionType": clause.does.value}


def _counted(change: Change) -> dict[str, int]:
    """Count the rows that operations inserted, updated and deleted; empty if a count is unknown.

    Deleted rows are computed: rows before + inserted rows - rows after.
    """
    before = [f.file.live_rows for f in change.removed.values()]
    after = [f.live_rows for f in change.added]
    if not change.steps or None in before or None in after:
        return {}
    given = (f for step in change.steps if isinstance(step, Added) for f in step.files)
    inserted, updated = sum(f.logged_rows for f in given), 0
    for operation in change.operations:
        counts = whole_numbers(operation.metrics)
        if operation.name == "MERGE":
            if "numTargetRowsUpdated" not in counts or "numTargetRowsInserted" not in counts:
                return {}
            inserted += counts["numTargetRowsInserted"]
            updated += counts["numTargetRowsUpdated"]
        elif operation.name == "UPDATE":
            if UPDATED not in counts:
                return {}
            updated += counts[UPDATED]
    difference = sum(n or 0 for n in after) - sum(n or 0 for n in before)
    return {INSERTED: inserted, UPDATED: updated, DELETED: inserted - difference}


def _removed(change: Change, before: Mapping[str, LoggedFile]) -> dict[str, int]:
    """Return metrics of removed files, and of files with new deletion vectors."""
    stay = {f.path: f for f in change.added if f.path in before}
    gone = [f for path, f in before.items() if path not in stay]
    out = {"numRemovedFiles": len(gone), "numRemovedBytes": sum(f.size for f in gone)}
    old = {path: before[path].file.deletion_vector for path in stay}
    marked = {path for path, f in stay.items() if f.deletion_vector != old[path]}
    if marked:
        known = {path for path in marked if old[path] is not None}
        out["numDeletionVectorsAdded"] = len(marked - known)
        out["numDeletionVectorsUpdated"] = len(known)
    return out


def _deleted(change: Change, new: Sequence[DataFile]) -> dict[str, int]:
    """Return metrics of a change that only deletes rows; none if a file's row count is unknown."""
    before = [f.file.live_rows for f in change.removed.values()]
    after = [f.live_rows for f in change.added]
    if None in before or None in after:
        return {}
    return {
        "numDeletedRows": sum(n or 0 for n in before) - sum(n or 0 for n in after),
        "numCopiedRows": sum(f.logged_rows for f in new),
    }
