"""Branches as text: their tables and locations, and what publishing them would do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from lakeward.cli.output import words

if TYPE_CHECKING:
    from lakeward.lake.records import BranchDiff, BranchInfo


def branch(found: BranchInfo) -> Iterator[RenderableType]:
    """Show one branch, one line per table."""
    yield words.line(f"Branch {found.branch}")
    rows = ((t.table, str(t.base_version), t.location) for t in found.tables)
    yield words.grid(("table", "from version", "location"), rows, right=("from version",))


def branches(found: Sequence[BranchInfo]) -> Iterator[RenderableType]:
    """Show all branches, one line per branch."""
    if not found:
        yield Text("The lake has no branches.")
        return
    rows = (
        (b.branch, ", ".join(t.table for t in b.tables), b.actor, words.moment(b.created))
        for b in found
    )
    yield words.grid(("branch", "tables", "actor", "since"), rows)


def diff(found: Sequence[BranchDiff]) -> Iterator[RenderableType]:
    """Show what publishing would do to each table, and the conflicts that prevent it."""
    rows = (
        (
            t.table,
            str(t.base_version),
            str(t.version),
            ", ".join(t.operations) or "nothing",
            f"+{t.files_added} -{t.files_removed}",
            f"{t.rows_added - t.rows_removed:+,}",
        )
        for t in found
    )
    columns = ("table", "from version", "now", "done", "files", "rows")
    yield words.grid(columns, rows, right=("from version", "now", "files", "rows"))
    for table in found:
        if table.conflict is not None:
            yield words.line(f"Conflict: {table.conflict}", "red")
