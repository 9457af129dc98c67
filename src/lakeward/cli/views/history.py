"""Versions of a table, and what changed between two of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.console import RenderableType
from rich.text import Text

from lakeward.cli.output import words
from lakeward.cli.output.base import View
from lakeward.model.definition import Definition
from lakeward.model.file import LoggedFile
from lakeward.model.transform import value_text
from lakeward.model.types import Type
from lakeward.model.values import Value, from_neutral
from lakeward.read.diff import Diff
from lakeward.read.history import Version
from lakeward.read.snapshot import Totals

_LISTED: Final = 20


@dataclass(frozen=True, slots=True)
class VersionsView(View):
    """Versions in the order given.

    Attributes:
        more: Older ones were left out.
        tables: What the transactions over several tables made of each; None when nobody asked.
    """

    table: str
    versions: tuple[Version, ...]
    more: bool = False
    tables: Mapping[str, Mapping[str, int]] | None = None

    def to_json(self) -> dict[str, Any]:
        """`{"table": …, "versions": […]}`."""
        return {
            "table": self.table,
            "versions": [
                {name: getattr(v, name) for name in Version.__dataclass_fields__} | self._members(v)
                for v in self.versions
            ],
            "more": self.more,
        }

    def to_text(self) -> Iterator[RenderableType]:
        """One line to a version."""
        if not self.versions:
            yield Text(f"Table {self.table} has no version there.")
            return
        others = [] if self.tables is None else ["together with"]
        snapshots = ["snapshot"] if any(v.snapshot_id is not None for v in self.versions) else []
        yield words.grid(
            [
                "version",
                "committed",
                "operation",
                "rows",
                "actor",
                "transaction",
                *snapshots,
                *others,
                "message",
            ],
            (
                (
                    str(v.version),
                    words.moment(v.timestamp),
                    _operation(v),
                    _rows(v),
                    v.actor,
                    v.transaction_id + (f" ({v.members} tables)" if v.members > 1 else ""),
                    *("" if v.snapshot_id is None else str(v.snapshot_id) for _ in snapshots),
                    *(self._others(v) for _ in others),
                    v.message or "",
                )
                for v in self.versions
            ),
            right=("version", "rows"),
        )
        if self.more:
            yield Text("Older versions follow; --limit shows more.", style="dim")

    def _members(self, version: Version) -> dict[str, Any]:
        if self.tables is None:
            return {}
        alone = {self.table: version.version}
        return {"tables": dict(self.tables.get(version.transaction_id, alone))}

    def _others(self, version: Version) -> str:
        found = self.tables.get(version.transaction_id, {}) if self.tables is not None else {}
        return ", ".join(f"{name} {v}" for name, v in found.items() if name != self.table)


@dataclass(frozen=True, slots=True)
class DiffView(View):
    """What changed from one version to another."""

    diff: Diff
    before: Definition
    after: Definition
    listed: int = _LISTED

    def to_json(self) -> dict[str, Any]:
        """Totals, schema, properties, partitions and files."""
        diff = self.diff
        return {
            "table": diff.table,
            "from_version": diff.from_version,
            "to_version": diff.to_version,
            "before": _totals(diff.before),
            "after": _totals(diff.after),
            "rows_added": diff.rows_added,
            "rows_removed": diff.rows_removed,
            "schema": [
                {"kind": c.kind, "column": c.column, "before": c.before, "after": c.after}
                for c in diff.schema_changes
            ],
            "properties": {
                name: {"before": old, "after": new} for name, (old, new) in diff.properties.items()
            },
            "partitions": [
                {"partition": name, **dict(zip(_PARTITION, counts, strict=True))}
                for name, counts in self._partitions()
            ],
            "files_added": [_file(f, self.after) for f in diff.added_files],
            "files_removed": [_file(f, self.before) for f in diff.removed_files],
        }

    def to_text(self) -> Iterator[RenderableType]:
        """The numbers first, then what is behind them."""
        diff = self.diff
        yield words.heading(f"{diff.table}: version {diff.from_version} → {diff.to_version}")
        if diff.is_empty:
            yield Text("Nothing differs.")
            return
        yield self._numbers()
        for change in diff.schema_changes:
            yield _line("column", f"{change.column}: {_change(change.kind, change)}")
        for name, (old, new) in diff.properties.items():
            yield _line("property", f"{name}: {_value(old)} → {_value(new)}")
        partitions = list(self._partitions())
        if any(name for name, _ in partitions):
            yield words.grid(
                ["partition", "files added", "files removed", "rows added", "rows removed"],
                ((name, *map(words.number, counts)) for name, counts in partitions[: self.listed]),
                right=("files added", "files removed", "rows added", "rows removed"),
            )
            yield from _rest(len(partitions) - self.listed, "partition")
        yield from self._files("+", "green", diff.added_files)
        yield from self._files("-", "red", diff.removed_files)

    def _numbers(self) -> RenderableType:
        before, after = self.diff.before, self.diff.after
        return words.grid(
            ["", "before", "after"],
            (
                ("rows", words.number(before.rows), words.number(after.rows)),
                ("files", words.number(before.files), words.number(after.files)),
                ("size", words.size(before.bytes), words.size(after.bytes)),
            ),
            right=("before", "after"),
        )

    def _files(
        self, sign: str, style: str, files: Sequence[LoggedFile]
    ) -> Iterator[RenderableType]:
        for f in files[: self.listed]:
            rows = "" if f.rows is None else f", {words.counted(f.rows, 'row')}"
            yield Text(
                f"{sign} {words.printable(f.path)} ({words.size(f.size)}{rows})", style=style
            )
        yield from _rest(len(files) - self.listed, "file")

    def _partitions(self) -> Iterator[tuple[str, list[int]]]:
        counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        for position, definition, files in (
            (0, self.after, self.diff.added_files),
            (1, self.before, self.diff.removed_files),
        ):
            for f in files:
                line = counts[_partition(f, definition)]
                line[position] += 1
                line[position + 2] += f.rows or 0
        yield from sorted(counts.items())


_PARTITION: Final = ("files_added", "files_removed", "rows_added", "rows_removed")


def _operation(version: Version) -> str:
    mode = version.parameters.get("mode")
    words_of = f"{version.operation} {mode}" if mode else version.operation
    return f"{words_of} (adopted)" if version.adopted else words_of


def _rows(version: Version) -> str:
    written = version.metrics.get("numOutputRows")
    return "" if written is None else words.number(int(written))


def _totals(source: Totals) -> dict[str, Any]:
    return {"rows": source.rows, "files": source.files, "bytes": source.bytes}


def _file(source: LoggedFile, definition: Definition) -> dict[str, Any]:
    return {
        "path": source.path,
        "bytes": source.size,
        "rows": source.rows,
        "partition": _partition_values(source, definition),
    }


def _partition_values(source: LoggedFile, definition: Definition) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for own_id, value in definition.schema.current_values(source.partition).items():
        if own_id not in definition.schema.by_id and own_id not in definition.derived:
            continue
        field = definition.field(own_id)
        hidden = definition.derived.get(own_id) if own_id < 0 and value is not None else None
        shown = hidden.transform.text(field.type, value) if hidden else None
        out[field.name] = shown or _python_value(field.type, value)
    return out


def _python_value(kind: Type, value: Value) -> Any:
    """A neutral value as Python has it; a date that Python has not, as text."""
    try:
        return from_neutral(kind, value)
    except OverflowError:
        return value_text(kind, value)


def _partition(source: LoggedFile, definition: Definition) -> str:
    values = _partition_values(source, definition)
    return "/".join(f"{name}={_value(value)}" for name, value in values.items())


def _change(kind: str, change: Any) -> str:
    match kind:
        case "added":
            return f"added as {change.after}"
        case "dropped":
            return f"dropped, it was {change.before}"
        case _:
            return f"{kind} {_value(change.before)} → {_value(change.after)}"


def _value(value: Any) -> str:
    return "(none)" if value is None else str(value)


def _line(kind: str, text: str) -> Text:
    return Text.assemble((f"{kind} ", "bold"), words.printable(text))


def _rest(count: int, noun: str) -> Iterator[RenderableType]:
    if count > 0:
        yield Text(f"… and {words.counted(count, noun)} more; --files shows more.", style="dim")
