"""What changed between two versions of a table: files, schema, properties, statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakeward.log import files
from lakeward.model.definition import Definition
from lakeward.model.file import LoggedFile
from lakeward.model.schema import Schema
from lakeward.read.snapshot import TableSnapshot, Totals


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """A column that was added, dropped or changed."""

    kind: str
    column: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Diff:
    """From one version to another, in that direction.

    Attributes:
        added_files: Files of `to_version` that `from_version` does not have.
        removed_files: Files of `from_version` that `to_version` does not have.
        schema_changes: Columns, by their ids: a renamed column is one change.
        properties: Old and new value of each property that differs; constraints are among them.
        before: Totals of `from_version`.
        after: Totals of `to_version`.
    """

    table: str
    from_version: int
    to_version: int
    added_files: tuple[LoggedFile, ...]
    removed_files: tuple[LoggedFile, ...]
    schema_changes: tuple[SchemaChange, ...]
    properties: Mapping[str, tuple[str | None, str | None]]
    before: Totals
    after: Totals

    @property
    def rows_added(self) -> int:
        """Rows in added files, including rows of files that were added again with deletes."""
        return sum(f.file.logged_rows for f in self.added_files)

    @property
    def rows_removed(self) -> int:
        """Rows in removed files."""
        return sum(f.file.logged_rows for f in self.removed_files)

    @property
    def is_empty(self) -> bool:
        """Whether the two versions have the same files and definition."""
        return not (
            self.added_files or self.removed_files or self.schema_changes or self.properties
        )


def diff(first: TableSnapshot, second: TableSnapshot) -> Diff:
    """The difference of two snapshots of one table, found by index and not by listing both."""
    low, high = sorted((first, second), key=lambda s: s.version)
    with low.context.database.read() as session:
        table_id = low.head.table_id
        came = tuple(files.at(session, table_id, high.version, after=low.version))
        went = tuple(files.removed_since(session, table_id, low.version, high.version))
    came = tuple(sorted(came, key=lambda f: (f.added, f.ordinal)))
    forward = first.version <= second.version
    return Diff(
        table=first.name,
        from_version=first.version,
        to_version=second.version,
        added_files=came if forward else went,
        removed_files=went if forward else came,
        schema_changes=tuple(_schema_changes(first.schema, second.schema)),
        properties=_properties(first.definition, second.definition),
        before=first.totals(),
        after=second.totals(),
    )


def _schema_changes(before: Schema, after: Schema) -> list[SchemaChange]:
    old, new = before.by_id, after.by_id
    changes = [
        SchemaChange("dropped", f.name, str(f.type), None) for i, f in old.items() if i not in new
    ]
    changes += [
        SchemaChange("added", f.name, None, str(f.type)) for i, f in new.items() if i not in old
    ]
    for field_id in old.keys() & new.keys():
        was, now = old[field_id], new[field_id]
        if was.name != now.name:
            changes.append(SchemaChange("renamed", now.name, was.name, now.name))
        if str(was.type) != str(now.type):
            changes.append(SchemaChange("type", now.name, str(was.type), str(now.type)))
        if was.nullable != now.nullable:
            words = ("required", "nullable")
            changes.append(
                SchemaChange("nullability", now.name, words[was.nullable], words[now.nullable])
            )
        if was.comment != now.comment:
            changes.append(SchemaChange("comment", now.name, was.comment, now.comment))
    return changes


def _properties(before: Definition, after: Definition) -> dict[str, tuple[str | None, str | None]]:
    old, new = _settings(before), _settings(after)
    return {
        k: (old.get(k), new.get(k))
        for k in sorted(old.keys() | new.keys())
        if old.get(k) != new.get(k)
    }


def _settings(definition: Definition) -> dict[str, str]:
    checks = {f"constraint.{k}": v for k, v in definition.constraints.items()}
    partition = {"partition_by": ",".join(definition.partition_names)}
    return {**definition.properties, **checks, **partition}
