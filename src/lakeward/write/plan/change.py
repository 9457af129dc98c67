"""What a transaction means to do to one table, and what it saw of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

from lakeward.model.commit import AppTransaction, Head
from lakeward.model.definition import Definition
from lakeward.model.expressions.nodes import Expression
from lakeward.model.file import DataFile, LoggedFile
from lakeward.write.plan.row_plan import RowPlan


@dataclass
class Change:
    """The pending change of one table.

    Attributes:
        head: The table as the transaction sees it: the base version.
        definition: At the base version.
        added: Staged files.
        removed: Files of the base version that shall go.
        change_files: The rows that change, where their writer tells; see `Commit`.
        told: Change files that operations wrote as they changed rows; `feed` decides of them.
        data_change: False where rows only move.
        new_definition: What the definition shall become.
        scopes: Predicates whose rows are replaced or removed; None stands for all rows. A file that
            somebody adds inside such a scope meanwhile is a conflict.
        reads: Predicates that were read; they matter to serializable transactions.
        claims: Paths of files that were not written for this transaction and must not be in the
            table already.
        app_transactions: Application numbers to record.
        steps: What was done to rows, in order, so that it can be done again on a newer version.
        fixed: Files were added or removed outside of the steps: removed by their paths, or taken
            from a branch. Such a change fits its base version alone.
        operations: What was asked for, in order.
        aside: Metadata files written for it, which nothing reaches until it is ratified.
    """

    head: Head
    definition: Definition
    added: list[DataFile] = field(default_factory=list)
    removed: dict[tuple[int, int], LoggedFile] = field(default_factory=dict)
    change_files: list[DataFile] = field(default_factory=list)
    told: list[DataFile] = field(default_factory=list)
    data_change: bool = True
    new_definition: Definition | None = None
    scopes: list[Expression | None] = field(default_factory=list)
    reads: list[Expression | None] = field(default_factory=list)
    claims: list[str] = field(default_factory=list)
    app_transactions: list[AppTransaction] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    fixed: bool = False
    operations: list[Operation] = field(default_factory=list)
    aside: list[str] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to commit."""
        return not (
            self.added
            or self.removed
            or self.new_definition
            or self.app_transactions
            or self.operations
        )

    @property
    def is_new(self) -> bool:
        """Whether the transaction makes the table."""
        return self.head.version < 0

    @property
    def is_blind(self) -> bool:
        """Whether the change only adds rows, without having looked at the table."""
        return not (self.removed or self.scopes or self.reads or self.new_definition)

    @property
    def is_replayable(self) -> bool:
        """Whether the steps tell all that was done to rows, so that it can be done again."""
        has_files = bool(self.added or self.removed or self.change_files)
        return not self.fixed and (bool(self.steps) or not has_files)

    def remove(self, file: LoggedFile) -> None:
        """Let a file of the base version go."""
        self.removed[file.added, file.ordinal] = file


@dataclass(frozen=True, slots=True)
class Added:
    """Files were added."""

    files: tuple[DataFile, ...]


@dataclass(frozen=True, slots=True)
class RowsRemoved:
    """The rows of a scope were removed; None stands for all rows."""

    scope: Expression | None


@dataclass(frozen=True, slots=True)
class KeysRemoved:
    """The rows with one of some keys were removed; the columns of `keys` make the key."""

    keys: pa.Table


@dataclass(frozen=True, slots=True)
class RowsChanged:
    """A plan for rows was carried out; `operation` is its place among the operations."""

    plan: RowPlan
    operation: int


Step: TypeAlias = Added | RowsRemoved | KeysRemoved | RowsChanged


@dataclass(frozen=True, slots=True)
class Operation:
    """Something that was asked for.

    Attributes:
        name: As history shows it.
        parameters: Of what was asked.
        metrics: What it did, where the engine that did it tells.
    """

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)


def write_operation(mode: str, change: Change, where: str | None = None) -> Operation:
    """What history shows of rows that were written."""
    parameters = {"mode": mode}
    names = change.definition.partition_names
    if names:
        parameters["partitionBy"] = ",".join(names)
    if where is not None:
        parameters["predicate"] = where
    return Operation("WRITE", parameters)


def progress_operation(recorded: AppTransaction) -> Operation:
    """What history shows where nothing but an application's progress is recorded."""
    return Operation("TXN", {"appId": recorded.app_id})


def summary(change: Change) -> Operation:
    """One operation that stands for all that was asked for."""
    if len(change.operations) == 1:
        return change.operations[0]
    names = list(dict.fromkeys(o.name for o in change.operations))
    if len(names) == 1:
        return Operation(names[0], change.operations[-1].parameters)
    return Operation("TRANSACTION", {"operations": ", ".join(names)})


def metrics(change: Change) -> dict[str, Any]:
    """What the change does, in numbers, under the names that Delta uses."""
    stay = {f.path for f in change.added} & {f.path for f in change.removed.values()}
    new = [f for f in change.added if f.path not in stay]
    gone = [f for f in change.removed.values() if f.path not in stay]
    out: dict[str, Any] = {
        "numFiles": len(new),
        "numOutputRows": sum(f.told_rows for f in new),
        "numOutputBytes": sum(f.size for f in new),
    }
    if change.removed:
        out["numRemovedFiles"] = len(gone)
        out["numRemovedBytes"] = sum(f.size for f in gone)
    if stay:
        known = {f.path for f in change.removed.values() if f.file.deletion_vector is not None}
        out["numDeletionVectorsAdded"] = len(stay - known)
        out["numDeletionVectorsUpdated"] = len(stay & known)
    if change.operations and all(o.name == "DELETE" for o in change.operations):
        out.update(_deleted(change, new))
    if len(change.operations) == 1:
        return out | dict(change.operations[0].metrics)
    counts: Counter[str] = Counter()
    for operation in change.operations:
        counts.update({n: v for n, v in operation.metrics.items() if isinstance(v, int)})
    return {**counts, **out}


def _deleted(change: Change, new: Sequence[DataFile]) -> dict[str, int]:
    """How many rows went, where rows did nothing else and every file tells how many it has."""
    before = [f.file.live_rows for f in change.removed.values()]
    after = [f.live_rows for f in change.added]
    if None in before or None in after:
        return {}
    return {
        "numDeletedRows": sum(n or 0 for n in before) - sum(n or 0 for n in after),
        "numCopiedRows": sum(f.told_rows for f in new),
    }
