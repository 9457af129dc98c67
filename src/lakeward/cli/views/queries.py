"""The rows of a query as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from lakeward.cli.output import words
from lakeward.cli.views.tables import is_number

if TYPE_CHECKING:
    from lakeward.lake.records import QueryPage


def page(found: QueryPage) -> Iterator[RenderableType]:
    """Show the rows of a result and their number."""
    values, schema = found.columns(), found.data.schema
    lines = ([words.cell(column[n]) for column in values] for n in range(found.data.num_rows))
    yield words.grid(schema.names, lines, right=[f.name for f in schema if is_number(f.type)])
    shown = found.offset + found.data.num_rows
    if found.more:
        yield Text(f"the first {words.counted(shown, 'row')}; others follow", style="dim")
    else:
        yield Text(words.counted(shown, "row"), style="dim")
