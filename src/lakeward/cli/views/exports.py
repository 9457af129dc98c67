"""Exports and retention of tables as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import RenderableType

from lakeward.cli.output import words

if TYPE_CHECKING:
    from lakeward.lake.records import Exported, Retention


def exported(found: Sequence[Exported]) -> Iterator[RenderableType]:
    """Show one line per exported table."""
    rows = (
        (e.table, str(e.version), f"{e.rows:,}", str(len(e.files)), words.size(e.bytes), e.path)
        for e in found
    )
    columns = ("table", "version", "rows", "files", "size", "where")
    yield words.grid(columns, rows, right=("version", "rows", "files", "size"))


def retention(found: Retention) -> Iterator[RenderableType]:
    """Show which versions are promised and which can be read."""
    yield words.line(f"Table {found.table}: versions are kept for {found.period.days} days.")
    yield words.line(f"Promised from version {found.promised_version} on.")
    yield words.line(f"The oldest version that can be read is {found.oldest_version}.")
    if found.held_versions:
        held = ", ".join(map(str, found.held_versions))
        yield words.line(f"Held by tags, branches and clones: {held}.")
