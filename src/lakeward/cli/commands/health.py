"""`doctor`: is the lake what it promises to be?"""

from __future__ import annotations

from typing import Annotated

import typer

from lakeward.cli import exits
from lakeward.cli.arguments import complete_table
from lakeward.cli.context import Cli
from lakeward.cli.program import command
from lakeward.context import context_of


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
            help="Publish what is owed, lost or torn, enter Iceberg tables again that were taken "
            "out of the catalog, and close what the dead left open.",
        ),
    ] = False,
) -> None:
    """Check every promise of the lake: the log against itself and against the published files.

    Says what is wrong and how to mend it. Without --fix nothing is changed, not even what opening
    a lake repairs. Ends with code 12 when an error is found, and remains after --fix.
    """
    with cli.lake(repair=False) as lake, cli.output.working("Examining") as advance:
        from lakeward.cli.views.health import HealthView
        from lakeward.maintain.doctor import examine, mend

        names = tables or None
        report = examine(context_of(lake), tables=names, progress=advance)
        mended = None
        if fix:
            mended = mend(context_of(lake), report)
            report = examine(context_of(lake), tables=names, progress=advance)
        view = HealthView(context_of(lake).database.label, report, mended)
    cli.show(view)
    if not report.healthy:
        raise typer.Exit(exits.UNHEALTHY)
