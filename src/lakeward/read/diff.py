"""Compares two versions of a table: files, schema, properties, statistics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from lakeward.log import commits, files
from lakeward.log.database import Session
from lakeward.model.definition import Definition
from lakeward.model.file import LoggedFile
from lakeward.model.records import HIDDEN, in_json, shown_as
from lakeward.model.row_counts import NO_ROWS, SAMPLE, RowCounts, row_counts
from lakeward.model.schema import Schema
from lakeward.model.shown import html_table
from lakeward.model.transform import python_value
from lakeward.read.describe import Totals
from lakeward.read.snapshot import TableSnapshot

if TYPE_CHECKING:
    from lakeward.read.row_diff import RowDiff


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """A column that was added, dropped or changed."""

    kind: str
    column: str
    before: str | None
    after: str | None


class PropertyChange(NamedTuple):
    """The old and the new value of a property; None if it was not set."""

    before: str | None
    after: str | None


class FileInfo(NamedTuple):
    """A file that was added or removed, with its partition values by column."""

    path: str
    bytes: int
    rows: int | None
    partition: Mapping[str, Any]


class PartitionChange(NamedTuple):
    """How many files and rows were added to, and removed from, a partition."""

    partition: str
    files_added: int
    files_removed: int
    rows_added: int
    rows_removed: int


@dataclass(frozen=True, repr=False)
class Diff:
    """The difference between two versions, from the first to the second.

    Attributes:
        added_files: Files of `to_version` that `from_version` does not have.
        removed_files: Files of `from_version` that `to_version` does not have.
        schema_changes: Changed columns, matched by id: a renamed column is one change.
        properties: Old and new value of each property or constraint that differs.
        before: Totals of `from_version`.
        after: Totals of `to_version`.
        changed: How many rows the commits in between inserted, updated and deleted, without rows
            that were only copied to new files; None if a commit does not record these numbers.
        old: The definition at `from_version`.
        new: The definition at `to_version`.
        rows: The rows by which the versions differ, if requested.
    """

    table: str
    from_version: int
    to_version: int
    added_files: tuple[LoggedFile, ...] = field(metadata=HIDDEN)
    removed_files: tuple[LoggedFile, ...] = field(metadata=HIDDEN)
    schema_changes: tuple[SchemaChange, ...] = field(metadata=shown_as("schema"))
    properties: Mapping[str, PropertyChange]
    before: Totals
    after: Totals
    changed: RowCounts | None
    old: Definition = field(metadata=HIDDEN)
    new: Definition = field(metadata=HIDDEN)
    rows: RowDiff | None = None

    def __repr__(self) -> str:
        shown = {
            "changed": self.changed,
            "files_added": len(self.added_files),
            "files_removed": len(self.removed_files),
            "schema_changes": self.schema_changes,
            "properties": dict(self.properties),
            "rows": self.rows,
        }
        facts = "".join(f", {name}={value!r}" for name, value in shown.items() if value)
        return f"Diff({self.table!r}, {self.from_version} to {self.to_version}{facts})"

    def _repr_html_(self) -> str:
        rows: list[tuple[str, object]] = [
            ("rows changed", self.changed),
            ("files added", len(self.added_files)),
            ("files removed", len(self.removed_files)),
        ]
        rows += [("schema", change) for change in self.schema_changes]
        rows += [(f"property {name}", change) for name, change in self.properties.items()]
        if self.rows is not None:
            found = self.rows
            rows.append(("rows inserted", found.inserted))
            rows.append(("rows deleted", found.deleted))
            rows.append(("rows with other values", found.changed))
        title = f"{self.table}, version {self.from_version} to {self.to_version}"
        return html_table(title, ("what", "difference"), rows)

    @property
    @in_json
    def rows_added(self) -> int:
        """Rows in added files, including files added again with other deleted rows."""
        return sum(f.file.logged_rows for f in self.added_files)

    @property
    @in_json
    def rows_removed(self) -> int:
        """Rows in removed files."""
        return sum(f.file.logged_rows for f in self.removed_files)

    @property
    @in_json
    def files_added(self) -> tuple[FileInfo, ...]:
        """The added files, with partition values as users see them."""
        return tuple(_file(f, self.new) for f in self.added_files)

    @property
    @in_json
    def files_removed(self) -> tuple[FileInfo, ...]:
        """The removed files, with partition values as users see them."""
        return tuple(_file(f, self.old) for f in self.removed_files)

    @property
    @in_json
    def partitions(self) -> tuple[PartitionChange, ...]:
        """The files and rows added to and removed from each partition, sorted by name."""
        counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        for place, found in enumerate((self.files_added, self.files_removed)):
            for f in found:
                line = counts[_partition(f.partition)]
                line[place] += 1
                line[place + 2] += f.rows or 0
        return tuple(PartitionChange(name, *line) for name, line in sorted(counts.items()))

    @property
    def is_empty(self) -> bool:
        """Whether the two versions have the same files and definition."""
        return not (
            self.added_files or self.removed_files or self.schema_changes or self.properties
        )


def diff(
    first: TableSnapshot,
    second: TableSnapshot,
    *,
    rows: bool = False,
    key: str | Sequence[str] | None = None,
    sample: int = SAMPLE,
) -> Diff:
    """Compare two snapshots of one table by the log's indexes, without listing all their files.

    With `rows`, the files that only one of the snapshots has are read and compared.
    """
    low, high = sorted((first, second), key=lambda s: s.version)
    with low.context.database.read() as session:
        table_id = low.log_head.table_id
        came = tuple(files.at(session, table_id, high.version, after=low.version))
        went = tuple(files.removed_since(session, table_id, low.version, high.version))
        changed = _changed(session, table_id, low.version, high.version)
    came = tuple(sorted(came, key=lambda f: (f.added, f.ordinal)))
    forward = first.version <= second.version
    new, gone = (came, went) if forward else (went, came)
    before, after = first.totals(), second.totals()  # raises an error for a vacuumed version
    told = None
    if rows:
        # Imported here because it loads the engine.
        from lakeward.read.row_diff import version_rows

        told = version_rows(first, second, gone, new, key=key, sample=sample)
    return Diff(
        table=first.name,
        from_version=first.version,
        to_version=second.version,
        added_files=new,
        removed_files=gone,
        schema_changes=tuple(_schema_changes(first.schema, second.schema)),
        properties=_properties(first.definition, second.definition),
        before=before,
        after=after,
        changed=changed if forward or changed is None else _undone(changed),
        old=first.definition,
        new=second.definition,
        rows=told,
    )


def _changed(session: Session, table_id: int, after: int, version: int) -> RowCounts | None:
    """Return the rows that the commits of a range changed; None if a commit does not record it."""
    total = NO_ROWS
    found = commits.history(
        session, table_id, low=after + 1, high=version, limit=max(1, version - after)
    )
    for commit in found:
        counts = row_counts(commit.info) or _by_files(session, table_id, commit.version)
        if counts is None:
            return None
        total = total.plus(counts)
    return total


def _by_files(session: Session, table_id: int, version: int) -> RowCounts | None:
    """Return the changed rows of a commit that only adds or only removes files; None for others."""
    came = [f.file.live_rows for f in files.added_at(session, table_id, version)]
    went = [f.file.live_rows for f in files.removed_at(session, table_id, version)]
    if (came and went) or None in came or None in went:
        return None
    return RowCounts(sum(n or 0 for n in came), 0, sum(n or 0 for n in went))


def _undone(changed: RowCounts) -> RowCounts:
    return RowCounts(changed.deleted, changed.updated, changed.inserted)


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


def _properties(before: Definition, after: Definition) -> dict[str, PropertyChange]:
    old, new = _settings(before), _settings(after)
    return {
        k: PropertyChange(old.get(k), new.get(k))
        for k in sorted(old.keys() | new.keys())
        if old.get(k) != new.get(k)
    }


def _settings(definition: Definition) -> dict[str, str]:
    checks = {f"constraint.{k}": v for k, v in definition.constraints.items()}
    partition = {"partition_by": ",".join(definition.partition_names)}
    return {**definition.properties, **checks, **partition}


def _file(source: LoggedFile, definition: Definition) -> FileInfo:
    return FileInfo(source.path, source.size, source.rows, _partition_values(source, definition))


def _partition_values(source: LoggedFile, definition: Definition) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for own_id, value in definition.schema.current_values(source.partition).items():
        if own_id not in definition.schema.by_id and own_id not in definition.derived:
            continue
        field_ = definition.field(own_id)
        derived = definition.derived.get(own_id) if own_id < 0 and value is not None else None
        shown = derived.transform.text(field_.type, value) if derived else None
        out[field_.name] = shown or python_value(field_.type, value)
    return out


def _partition(values: Mapping[str, Any]) -> str:
    shown = {name: "(none)" if value is None else str(value) for name, value in values.items()}
    return "/".join(f"{name}={value}" for name, value in shown.items())
