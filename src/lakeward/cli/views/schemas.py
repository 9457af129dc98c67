"""The schemas of a table as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from lakeward.cli.output import words

if TYPE_CHECKING:
    from lakeward.lake.records import SchemaVersion


def schemas(found: Sequence[SchemaVersion]) -> Iterator[RenderableType]:
    """Show each schema: number, versions, operation, actor, time and message, and its columns."""
    for schema in found:
        until = "now" if schema.until is None else str(schema.until)
        yield words.heading(f"schema {schema.number}: versions {schema.since} to {until}")
        if schema.timestamp is not None:
            why = "" if schema.message is None else f": {schema.message}"
            text = f"{schema.operation} by {schema.actor}, {words.moment(schema.timestamp)}{why}"
            yield Text(text, style="dim")
        yield words.grid(
            ["column", "type", "null", "comment"],
            (
                (f.name, f.type, "" if f.nullable else "not null", f.comment or "")
                for f in schema.columns
            ),
        )
