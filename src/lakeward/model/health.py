"""The health of a table's files: a score up to 100, and the reasons for lost points."""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.model.records import in_json


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason why a table loses points.

    Attributes:
        kind: `small_files`, `deleted_rows`, `clustering`, `tombstones`, `log`, `statistics`,
            `partitions` or `skew`.
        points: How many points the table loses.
        what: The problem, in a sentence.
        command: The command that fixes it.
        partition: The worst partition, if the problem differs by partition.
    """

    kind: str
    points: int
    what: str
    command: str
    partition: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionHealth:
    """The files of one partition.

    Attributes:
        partition: The directory, such as `day=2026-11-17`; empty for an unpartitioned table.
        files: Number of files.
        small_files: Number of files worth compacting.
        bytes: Total size of the files.
        rows: Number of live rows, if the log has it.
        deleted_rows: Number of rows deleted by deletion vectors.
        overlap: The share of files that may hold a given value of a clustered column, on average;
            None for a table that was never clustered.
    """

    partition: str
    files: int
    small_files: int
    bytes: int
    rows: int | None
    deleted_rows: int
    overlap: float | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """How well a table's files are laid out, computed from the log alone.

    Attributes:
        table: The table's full name.
        version: The version that was examined.
        files: Number of files.
        bytes: Total size of the files.
        reasons: Worst first.
        partitions: Worst first.
    """

    table: str
    version: int
    files: int
    bytes: int
    reasons: tuple[Reason, ...] = ()
    partitions: tuple[PartitionHealth, ...] = ()

    @property
    @in_json
    def score(self) -> int:
        """100 minus the points of all reasons, at least 0."""
        return max(0, 100 - sum(reason.points for reason in self.reasons))
