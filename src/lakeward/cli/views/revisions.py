"""What a restore or undo did, or would do, as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import RenderableType

from lakeward.cli.output import words

if TYPE_CHECKING:
    from lakeward.lake.records import CommitResult, Revision


def revision(found: Revision, result: CommitResult | None) -> Iterator[RenderableType]:
    """Show one line per table, then the commit."""
    if found.tables:
        rows = (
            (
                t.table,
                str(t.version),
                str(t.to_version),
                f"+{t.files_added} -{t.files_removed}",
                f"+{_count(t.rows_added)} -{_count(t.rows_removed)}",
                "yes" if t.is_evolved else "",
            )
            for t in found.tables
        )
        columns = ("table", "from version", "to", "files", "rows", "columns or properties")
        yield words.grid(columns, rows, right=("from version", "to", "files", "rows"))
    for name, why in found.skipped:
        yield words.line(f"{name} is left alone: {why}.")
    if result is None:
        yield words.line("Nothing was changed." if found.tables else "There is nothing to change.")
    elif result.versions:
        yield words.line(f"Committed as transaction {result.transaction_id}.")
    else:
        yield words.line("There is nothing to change.")


def _count(rows: int | None) -> str:
    return "?" if rows is None else f"{rows:,}"
