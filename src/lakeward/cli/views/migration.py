"""Reports of migrations as text."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from lakeward.cli.output import words
from lakeward.lake.records import Migration


def migration(found: Migration) -> Iterator[RenderableType]:
    """Show what a migration found and did, and whether table and source are equal."""
    verb = {"planned": "would take", "done": "took"}.get(found.state, "had nothing new to take")
    files = f"{words.counted(found.new_files, 'file')} of {words.number(found.files)}"
    yield words.line(
        f"{found.table} ({found.format}, {found.mode.value}) {verb} in {files}:"
        f" {words.counted(found.rows, 'row')}, {words.size(found.bytes)}."
    )
    columns = ((name, kind) for name, kind in found.columns.items())
    yield words.grid(["column", "type"], columns)
    if found.partition_by:
        yield words.line(f"Partitioned by {', '.join(found.partition_by)}.")
    for title, paths in (("Changed", found.changed), ("Deleted", found.deleted)):
        for path in paths:
            yield words.line(f"{title} since it was taken in: {path}")
    for note in found.notes:
        yield words.line(note, "dim")
    if found.is_verified:
        yield words.line(f"✓ {words.counted(len(found.checks), 'checksum')} are the same.")
    for check in found.checks:
        if not check.is_same:
            where = f" in {check.partition}" if check.partition else ""
            yield words.line(f"✗ column {check.column}{where} is not the same.")
