"""`doctor`: checks that the lake keeps its guarantees."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeward.cli import exits
from lakeward.cli.arguments import complete_table
from lakeward.cli.context import Cli
from lakeward.cli.program import command


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, rich_help_panel="Upkeep")(doctor)


def doctor(
    cli: Cli,
    tables: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TABLE",
            help="Only these tables; all unless given.",
            autocompletion=complete_table,
            show_default=False,
        ),
    ] = None,
    fix: Annotated[
        bool,
        typer.Option(
            "--fix",
            help="Publish commits whose files are missing or incomplete, enter Iceberg tables "
            "again that were taken out of the catalog, roll back transactions of dead processes.",
        ),
    ] = False,
) -> None:
    """Check every guarantee of the lake: the log against itself and against the published files.

    Prints what is wrong and how to repair it. Without --fix nothing is changed, not even what
    opening a lake repairs. Ends with code 12 if there is an error, with --fix if one remains.
    """
    from lakeward.cli.views import health as text

    with cli.lake(repair=False) as lake, cli.output.working("Examining") as advance:
        report = lake.doctor(tables=tables or None, fix=fix, progress=advance)
    cli.answer(report, text.report(report))
    if not report.healthy:
        raise typer.Exit(exits.UNHEALTHY)
