"""The columns and tables that depend on a column, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from lakeward.cli.output import words
from lakeward.lake.records import Affected


def affected(found: Sequence[Affected]) -> Iterator[RenderableType]:
    """Show the affected columns and tables, one line each."""
    if not found:
        yield words.line("Nothing that the log knows depends on it.")
        return
    yield words.grid(
        ["affected", "how", "", "version", "transaction"],
        (
            (
                words.printable(str(one)),
                ", ".join(one.kinds),
                "directly" if one.direct else "indirectly",
                str(one.version),
                words.printable(one.transaction_id),
            )
            for one in found
        ),
        right=("version",),
    )
