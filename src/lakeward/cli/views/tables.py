"""One table in detail, and a page of its rows, as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from rich.console import RenderableType
from rich.text import Text

from lakeward.cli.output import words

if TYPE_CHECKING:
    from lakeward.lake.records import Page, TableDetails


def table(found: TableDetails) -> Iterator[RenderableType]:
    """Show facts first, then columns, constraints and properties."""
    yield words.heading(found.name)
    yield words.facts(_facts(found))
    yield Text("")
    yield words.grid(
        ["column", "type", "null", "comment"],
        ((f.name, f.type, "" if f.nullable else "not null", f.comment or "") for f in found.schema),
    )
    for title, pairs in (("checks", found.constraints), ("properties", found.properties)):
        if pairs:
            yield words.heading(title)
            yield words.facts(pairs.items())


def page(found: Page, *, is_last: bool) -> Iterator[RenderableType]:
    """Show the rows and their positions; `is_last` if this is the last page requested."""
    values, schema = found.columns(), found.data.schema
    lines = ([words.cell(column[n]) for column in values] for n in range(found.data.num_rows))
    yield words.grid(schema.names, lines, right=[f.name for f in schema if is_number(f.type)])
    shown, offset = found.data.num_rows, found.offset
    if shown:
        rows = f"rows {offset + 1:,} to {offset + shown:,}"
    else:
        rows = f"no rows after {offset:,}" if offset else "no rows"
    more = "; --limit and --offset show more" if found.more and is_last else ""
    yield Text(f"{rows} of {found.table} at version {found.version}{more}", style="dim")


def _facts(found: TableDetails) -> Iterator[tuple[str, RenderableType]]:
    newest = found.newest_version
    older = "" if found.version == newest else f" (the newest is {newest})"
    yield "version", f"{found.version}{older}, committed {words.moment(found.timestamp)}"
    rows = "rows unknown" if found.rows is None else words.counted(found.rows, "row")
    yield "holds", f"{rows} in {words.counted(found.files, 'file')}, {words.size(found.bytes)}"
    yield "on disk", f"{words.size(found.disk_bytes)}, with the files of older versions"
    yield "format", f"{found.format}, {_guard(found)}"
    if found.partition_by:
        yield "partitions", ", ".join(found.partition_by)
    if found.comment:
        yield "comment", found.comment
    yield "location", found.location
    if found.snapshot_id is not None:
        yield "snapshot", str(found.snapshot_id)
    if found.metadata_location is not None:
        yield "metadata", found.metadata_location


def _guard(found: TableDetails) -> str:
    if found.metadata_location is not None:
        return "in the lake's catalog"
    return "guarded" if found.guarded else f"open to other writers (drift: {found.drift})"


def is_number(kind: pa.DataType) -> bool:
    """Return whether values of a type are numbers."""
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))
