"""Versions of a table, and the changes between two of them, as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from lakeward.cli.output import words

if TYPE_CHECKING:
    from lakeward.lake.records import (
        AuditRecord,
        Diff,
        FileInfo,
        PartitionChange,
        RowCounts,
        SchemaChange,
        TrailReport,
        Version,
    )


def versions(
    table: str,
    found: Sequence[Version],
    *,
    more: bool = False,
    tables: Mapping[str, Mapping[str, int]] | None = None,
) -> Iterator[RenderableType]:
    """Show versions in the order given, one line per version.

    Args:
        table: The table of the versions.
        found: The versions.
        more: Whether older versions were left out.
        tables: The versions of all tables of each transaction, if these are shown.
    """
    if not found:
        yield Text(f"Table {table} has no version there.")
        return
    others = [] if tables is None else ["together with"]
    snapshots = ["snapshot"] if any(v.snapshot_id is not None for v in found) else []
    columns = ["version", "committed", "operation", "rows", "actor", "transaction"]
    yield words.grid(
        [*columns, *snapshots, *others, "message"],
        (
            (
                str(v.version),
                words.moment(v.timestamp),
                _operation(v),
                _rows(v),
                v.actor,
                v.transaction_id + (f" ({v.members} tables)" if v.members > 1 else ""),
                *("" if v.snapshot_id is None else str(v.snapshot_id) for _ in snapshots),
                *(_others(table, (tables or {}).get(v.transaction_id, {})) for _ in others),
                v.message or "",
            )
            for v in found
        ),
        right=("version", "rows"),
    )
    if more:
        yield Text("Older versions follow; --limit shows more.", style="dim")


def diff(found: Diff, *, listed: int) -> Iterator[RenderableType]:
    """Show the numbers first, then the changes; at most `listed` files and partitions."""
    yield words.heading(f"{found.table}: version {found.from_version} → {found.to_version}")
    if found.is_empty:
        yield Text("Nothing differs.")
        return
    before, after = found.before, found.after
    yield words.grid(
        ["", "before", "after"],
        (
            ("rows", words.number(before.rows), words.number(after.rows)),
            ("files", words.number(before.files), words.number(after.files)),
            ("size", words.size(before.bytes), words.size(after.bytes)),
        ),
        right=("before", "after"),
    )
    yield _line("rows", _changed(found.changed))
    for change in found.schema_changes:
        yield _line("column", f"{change.column}: {_change(change)}")
    for name, (old, new) in found.properties.items():
        yield _line("property", f"{name}: {_value(old)} → {_value(new)}")
    is_rewrite = bool(found.added.files and found.removed.files)
    partitions = found.partitions
    if any(p.partition for p in partitions):
        counts = ["files added", "files removed", "rows added", "rows removed"]
        # Files that are written again have rows that did not change.
        shown = 2 if is_rewrite else 4
        yield words.grid(
            ["partition", *counts[:shown]],
            ((p.partition, *_counts(p)[:shown]) for p in partitions[:listed]),
            right=counts,
        )
        yield from _rest(len(partitions) - listed, "partition")
    for sign, style, files, count in (
        ("+", "green", found.files("added", limit=listed), found.added.files),
        ("-", "red", found.files("removed", limit=listed), found.removed.files),
    ):
        yield from _files(sign, style, files.files, count, with_rows=not is_rewrite)


def trail(found: TrailReport) -> Iterator[RenderableType]:
    """Show an audit trail that is intact."""
    entries, tables = f"{found.entries:,} entries", words.counted(found.tables, "table")
    commits = words.counted(found.anchors, "published commit")
    yield Text(f"The audit trail is whole: {entries} of {tables}, compared with {commits}.")


def audit(found: Sequence[AuditRecord], *, more: bool) -> Iterator[RenderableType]:
    """Show entries of the audit trail, one line per entry."""
    yield words.grid(
        ["table", "entry", "at", "actor", "action", "version", "transaction"],
        (
            (
                e.table,
                str(e.number),
                words.moment(e.timestamp),
                e.actor,
                e.action,
                "" if e.version is None else str(e.version),
                e.transaction_id or "",
            )
            for e in found
        ),
        right=("entry", "version"),
    )
    if more:
        yield Text("There are older entries; --limit shows more.", style="dim")


def _files(
    sign: str, style: str, files: Sequence[FileInfo], count: int, *, with_rows: bool
) -> Iterator[RenderableType]:
    for f in files:
        rows = "" if f.rows is None or not with_rows else f", {words.counted(f.rows, 'row')}"
        yield words.line(f"{sign} {f.path} ({words.size(f.bytes)}{rows})", style)
    yield from _rest(count - len(files), "file")


def _others(table: str, members: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {v}" for name, v in members.items() if name != table)


def _operation(version: Version) -> str:
    mode = version.parameters.get("mode")
    named = f"{version.operation} {mode}" if mode else version.operation
    return f"{named} (adopted)" if version.adopted else named


def _rows(version: Version) -> str:
    if version.changed is not None:
        return words.number(sum(version.changed))
    written = version.metrics.get("numOutputRows")
    return "" if written is None else f"≤ {words.number(int(written))}"


def _counts(change: PartitionChange) -> list[str]:
    counts = (change.files_added, change.files_removed, change.rows_added, change.rows_removed)
    return [words.number(count) for count in counts]


def _changed(counts: RowCounts | None) -> str:
    if counts is None:
        return "changed: not recorded; files that were written again hold unchanged rows too"
    pairs = zip(("inserted", "updated", "deleted"), counts, strict=True)
    return ", ".join(f"{words.number(count)} {what}" for what, count in pairs)


def _change(change: SchemaChange) -> str:
    match change.kind:
        case "added":
            return f"added as {change.after}"
        case "dropped":
            return f"dropped, it was {change.before}"
        case kind:
            return f"{kind} {_value(change.before)} → {_value(change.after)}"


def _value(value: Any) -> str:
    return "(none)" if value is None else str(value)


def _line(kind: str, text: str) -> Text:
    return Text.assemble((f"{kind} ", "bold"), words.printable(text))


def _rest(count: int, noun: str) -> Iterator[RenderableType]:
    if count > 0:
        yield Text(f"… and {words.counted(count, noun)} more; --files shows more.", style="dim")
