"""Records of migrations: what was found and added, and whether table and source are equal."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lakeward.model.records import in_json


class MigrationMode(StrEnum):
    """Whether files are kept where they are, or their rows are rewritten."""

    IN_PLACE = "in-place"
    COPY = "copy"


@dataclass(frozen=True, slots=True)
class ColumnCheck:
    """A column of one partition, in the source and in the table.

    Attributes:
        partition: The partition's directory; empty if there are none.
        column: The column's name.
        rows: How many rows the source has.
        source: Checksum of the source's values, independent of their order.
        table: Checksum of the table's values.
    """

    partition: str
    column: str
    rows: int
    source: str
    table: str

    @property
    @in_json
    def is_same(self) -> bool:
        """Whether source and table have the same values."""
        return self.source == self.table


@dataclass(frozen=True, slots=True)
class Migration:
    """What a migration found and did.

    Attributes:
        source: The directory or table that was migrated.
        table: The table's full name.
        format: `delta` or `iceberg`.
        mode: `copy` or `in-place`.
        state: `planned` for a dry run, `done`, or `nothing` if there was nothing new.
        columns: The table's columns and their types.
        partition_by: The table's partitioning.
        files: Number of files in the source.
        bytes: Total size of these files.
        rows: Number of rows in these files.
        new_files: Number of files that this call added, or would add.
        changed: Files of the source that changed after they were added.
        deleted: Files that were added, and that the source no longer has.
        notes: Further remarks.
        checks: The comparison of every column and partition.
        version: The table's version after the migration.
        seconds: How long the migration took.
    """

    source: str
    table: str
    format: str
    mode: MigrationMode
    state: str
    columns: dict[str, str]
    partition_by: tuple[str, ...]
    files: int
    bytes: int
    rows: int
    new_files: int
    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    checks: tuple[ColumnCheck, ...] = ()
    version: int | None = None
    seconds: float = 0.0

    @property
    @in_json
    def is_verified(self) -> bool:
        """Whether the table was compared with the source and is equal."""
        return bool(self.checks) and all(check.is_same for check in self.checks)
