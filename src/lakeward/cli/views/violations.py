"""Violations of constraints as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from lakeward.cli.output import words
from lakeward.lake.records import ViolationRecord


def violations(found: Sequence[ViolationRecord], *, more: bool) -> Iterator[RenderableType]:
    """Show violations, one line per violation, newest first."""
    if not found:
        yield Text("No constraint was violated.")
        return
    yield words.grid(
        ["when", "table", "constraint", "action", "rows", "first row", "transaction", "pipeline"],
        (
            (
                words.moment(v.at),
                v.table,
                v.constraint,
                Text(v.action, style="red" if v.action == "fail" else words.WARNING),
                words.number(v.count),
                words.printable(str(v.sample[0])) if v.sample else "",
                v.transaction_id,
                v.pipeline or "",
            )
            for v in found
        ),
        right=("rows",),
    )
    if more:
        yield Text("Older ones follow; --limit shows more.", style="dim")
