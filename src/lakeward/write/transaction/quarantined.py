"""The rows that a transaction moved from one table to its quarantine table."""

from __future__ import annotations

from dataclasses import dataclass, field

from lakeward.log.violations import Violation
from lakeward.model.file import DataFile
from lakeward.model.names import TableName
from lakeward.write.plan.change import Added, Operation
from lakeward.write.transaction.member import Member


@dataclass
class Quarantined:
    """The rows of one table that were moved, so that this can be reverted.

    Attributes:
        place: The quarantine table.
        is_only: Whether the transaction changes the quarantine table by these rows only.
        violations: The violations to record.
        files: The files that contain the rows.
        operations: The operations that added the files.
    """

    place: TableName
    is_only: bool
    violations: list[Violation] = field(default_factory=list)
    files: list[DataFile] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)

    def note(self, files: list[DataFile], operation: Operation) -> None:
        """Record files that were added to the quarantine table by an operation."""
        self.files += files
        self.operations.append(operation)

    def take_out(self, place: Member) -> None:
        """Remove the rows from the pending change of the quarantine table."""
        change, paths = place.change, {f.path for f in self.files}
        own = set(map(id, self.operations))
        change.added = [f for f in change.added if f.path not in paths]
        change.steps = [s for s in change.steps if not _adds(s, paths)]
        change.operations = [o for o in change.operations if id(o) not in own]


def _adds(step: object, paths: set[str]) -> bool:
    return isinstance(step, Added) and any(f.path in paths for f in step.files)
