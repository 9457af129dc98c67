"""The statistics of a table as text: its columns, and its size over versions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from lakeward.cli.output import words
from lakeward.cli.views.quality import plot
from lakeward.lake.records import ColumnStatistics, Growth, TableStatistics


def statistics(found: TableStatistics) -> Iterator[RenderableType]:
    """Show a line of sizes, and one line per column."""
    rows = "an unknown number of rows" if found.rows is None else words.counted(found.rows, "row")
    files = words.counted(found.files, "file")
    yield words.heading(f"{found.table}, version {found.version}")
    yield words.line(f"{rows}, {files}, {words.size(found.bytes)}")
    yield words.grid(
        ["column", "nulls", "minimum", "maximum", "distinct"],
        (
            (
                words.printable(name),
                "unknown" if one.nulls is None else words.number(one.nulls),
                words.cell(one.minimum),
                words.cell(one.maximum),
                _distinct(one),
            )
            for name, one in found.columns.items()
        ),
        right=("nulls", "distinct"),
    )


def growth(found: Sequence[Growth]) -> Iterator[RenderableType]:
    """Show one line per version, and a plot of the row counts."""
    yield words.grid(
        ["version", "when", "operation", "rows", "files", "size"],
        (
            (
                str(one.version),
                words.moment(one.timestamp),
                one.operation,
                words.number(one.rows),
                words.number(one.files),
                words.size(one.bytes),
            )
            for one in found
        ),
        right=("version", "rows", "files", "size"),
    )
    yield words.line(f"rows {plot([one.rows for one in found])}")


def _distinct(one: ColumnStatistics) -> str:
    if one.distinct is None:
        return ""
    low, high = words.number(one.distinct_low), words.number(one.distinct_high)
    return f"{words.number(one.distinct)} ({low}–{high})"
