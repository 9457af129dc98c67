"""Compares two versions of a table: files, schema, properties, statistics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from lakeward.errors import InvalidInput
from lakeward.log.differences import PartitionSums, Side
from lakeward.log.totals import Sums
from lakeward.model import arguments
from lakeward.model.definition import Definition
from lakeward.model.file import LoggedFile
from lakeward.model.records import HIDDEN, in_json, shown_as
from lakeward.model.row_counts import SAMPLE, RowCounts
from lakeward.model.shown import html_table
from lakeward.model.transform import python_value
from lakeward.model.values import Value
from lakeward.read.definition_diff import (
    PropertyChange,
    SchemaChange,
    property_changes,
    schema_changes,
)
from lakeward.read.describe import Totals
from lakeward.read.files_between import FilesBetween
from lakeward.read.snapshot import TableSnapshot

if TYPE_CHECKING:
    from lakeward.read.row_diff import RowDiff


class FileInfo(NamedTuple):
    """A file that was added or removed, with its partition values by column."""

    path: str
    bytes: int
    rows: int | None
    partition: Mapping[str, Any]


class FilePage(NamedTuple):
    """Some of the files that were added or removed.

    Attributes:
        files: The files, in the order in which they were added.
        next: `after` of the next page; None if no file follows.
    """

    files: tuple[FileInfo, ...]
    next: tuple[int, int] | None


class FileSums(NamedTuple):
    """How many files were added or removed, with their bytes and their rows.

    Attributes:
        rows: Rows that are not deleted, as far as the log has their number.
    """

    files: int
    bytes: int
    rows: int


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

    If the versions differ in more than 1,000 files, or if more than 1,000 commits are between them,
    lists of files, `partitions` and `changed` are read from the log when they are first used. This
    raises `VersionNotFound` if one of the versions was vacuumed meanwhile.

    Attributes:
        added: The sums over the files of `to_version` that `from_version` does not have.
        removed: The sums over the files of `from_version` that `to_version` does not have.
        schema_changes: Changed columns, matched by id: a renamed column is one change.
        properties: Old and new value of each property or constraint that differs.
        before: Totals of `from_version`.
        after: Totals of `to_version`.
        old: The definition at `from_version`.
        new: The definition at `to_version`.
        rows: The rows by which the versions differ, if requested.
    """

    table: str
    from_version: int
    to_version: int
    added: FileSums
    removed: FileSums
    schema_changes: tuple[SchemaChange, ...] = field(metadata=shown_as("schema"))
    properties: Mapping[str, PropertyChange]
    before: Totals
    after: Totals
    old: Definition = field(metadata=HIDDEN)
    new: Definition = field(metadata=HIDDEN)
    _between: FilesBetween = field(metadata=HIDDEN, compare=False)
    rows: RowDiff | None = None

    def __repr__(self) -> str:
        shown = {
            "changed": self.changed if self.is_small else None,
            "files_added": self.added.files,
            "files_removed": self.removed.files,
            "schema_changes": self.schema_changes,
            "properties": dict(self.properties),
            "rows": self.rows,
        }
        facts = "".join(f", {name}={value!r}" for name, value in shown.items() if value)
        return f"Diff({self.table!r}, {self.from_version} to {self.to_version}{facts})"

    def _repr_html_(self) -> str:
        rows: list[tuple[str, object]] = [
            *([("rows changed", self.changed)] if self.is_small else []),
            ("files added", self.added.files),
            ("files removed", self.removed.files),
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
    def is_small(self) -> bool:
        """Whether few files differ, so that lists and partitions were read with the totals."""
        return self._between.is_few

    @property
    def added_files(self) -> tuple[LoggedFile, ...]:
        """The files of `to_version` that `from_version` does not have."""
        return self._between.gained if self._is_forward else self._between.lost

    @property
    def removed_files(self) -> tuple[LoggedFile, ...]:
        """The files of `from_version` that `to_version` does not have."""
        return self._between.lost if self._is_forward else self._between.gained

    @property
    @in_json
    def changed(self) -> RowCounts | None:
        """How many rows the commits in between inserted, updated and deleted.

        Rows that were only copied to new files do not count. None if a commit does not record
        these numbers.
        """
        counts = self._between.changed
        return counts if self._is_forward or counts is None else _undone(counts)

    @property
    @in_json
    def rows_added(self) -> int:
        """Rows in added files, including files added again with other deleted rows."""
        return self.added.rows

    @property
    @in_json
    def rows_removed(self) -> int:
        """Rows in removed files."""
        return self.removed.rows

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
        between, counts = self._between, defaultdict[str, list[int]](lambda: [0, 0, 0, 0])
        sides = (between.gained_partitions, between.lost_partitions)
        for place, found in enumerate(sides if self._is_forward else sides[::-1]):
            for one in found:
                line = counts[_partition(one, self.old if place else self.new)]
                line[place] += one.files
                line[place + 2] += one.rows
        return tuple(PartitionChange(name, *line) for name, line in sorted(counts.items()))

    @property
    def is_empty(self) -> bool:
        """Whether the two versions have the same files and definition."""
        counts = self.added.files, self.removed.files
        return not (any(counts) or self.schema_changes or self.properties)

    def files(
        self,
        kind: Literal["added", "removed"],
        *,
        limit: int = 100,
        after: tuple[int, int] | None = None,
    ) -> FilePage:
        """Return some of the files that were added or removed, without reading all of them.

        Args:
            kind: `added` or `removed`.
            limit: How many files at most.
            after: `next` of the page before; None for the first page.

        Raises:
            InvalidInput: There is no such kind.
        """
        if kind not in ("added", "removed"):
            what = f"`kind` must be 'added' or 'removed'; it is {kind!r}."
            raise InvalidInput(what, parameter="kind")
        most = arguments.whole(limit, "limit")
        is_added = kind == "added"
        side = Side.GAINED if is_added == self._is_forward else Side.LOST
        last = (-1, -1) if after is None else (int(after[0]), int(after[1]))
        found = self._between.page(side, most=most + 1, after=last)
        definition = self.new if is_added else self.old
        shown = tuple(_file(f, definition) for f in found[:most])
        more = found[most - 1] if 0 < most < len(found) else None
        return FilePage(shown, None if more is None else (more.added, more.ordinal))

    @property
    def _is_forward(self) -> bool:
        return self.from_version <= self.to_version


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
    is_forward = first.version <= second.version
    between = FilesBetween(first, second) if is_forward else FilesBetween(second, first)
    gained, lost = between.sums[Side.GAINED], between.sums[Side.LOST]
    low, high = between.low_totals, between.high_totals
    told = None
    if rows:
        # Imported here because it loads the engine.
        from lakeward.read.row_diff import version_rows

        new, gone = (between.gained, between.lost) if is_forward else (between.lost, between.gained)
        told = version_rows(first, second, gone, new, key=key, sample=sample)
    return Diff(
        table=first.name,
        from_version=first.version,
        to_version=second.version,
        added=_sums(gained if is_forward else lost),
        removed=_sums(lost if is_forward else gained),
        schema_changes=tuple(schema_changes(first.schema, second.schema)),
        properties=property_changes(first.definition, second.definition),
        before=low if is_forward else high,
        after=high if is_forward else low,
        old=first.definition,
        new=second.definition,
        _between=between,
        rows=told,
    )


def _sums(found: Sums) -> FileSums:
    return FileSums(found.files, found.size, found.logged_rows)


def _undone(changed: RowCounts) -> RowCounts:
    return RowCounts(changed.deleted, changed.updated, changed.inserted)


def _file(source: LoggedFile, definition: Definition) -> FileInfo:
    values = _partition_values(source.partition, definition)
    return FileInfo(source.path, source.size, source.rows, values)


def _partition_values(source: Mapping[int, Value], definition: Definition) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for own_id, value in definition.schema.current_values(source).items():
        if own_id not in definition.schema.by_id and own_id not in definition.derived:
            continue
        field_ = definition.field(own_id)
        derived = definition.derived.get(own_id) if own_id < 0 and value is not None else None
        shown = derived.transform.text(field_.type, value) if derived else None
        out[field_.name] = shown or python_value(field_.type, value)
    return out


def _partition(found: PartitionSums, definition: Definition) -> str:
    """Return the name of a partition."""
    values = _partition_values(found.values, definition)
    shown = {name: "(none)" if value is None else str(value) for name, value in values.items()}
    return "/".join(f"{name}={value}" for name, value in shown.items())
