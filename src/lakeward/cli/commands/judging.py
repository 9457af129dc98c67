"""`quality`: are the expectations of tables met?"""

from __future__ import annotations

from typing import Annotated

import typer

from lakeward.cli import exits
from lakeward.cli.arguments import complete_table
from lakeward.cli.context import Cli
from lakeward.cli.program import command


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, rich_help_panel="Upkeep")(quality)


def quality(
    cli: Cli,
    tables: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TABLE",
            help="Only these tables; all that have expectations unless given.",
            autocompletion=complete_table,
            show_default=False,
        ),
    ] = None,
    recorded: Annotated[
        bool, typer.Option("--recorded", help="Show what was measured before; measure nothing.")
    ] = False,
) -> None:
    """Measure the expectations of tables, record the values, and show them with their history.

    Expectations are those of policies. Ends with code 12 when one is not met.
    """
    from lakeward.cli.views import quality as text

    with cli.lake() as lake, cli.output.working("Measuring"):
        found = lake.quality(tables=tables or None, measure=not recorded)
    passed = all(one.passed for one in found)
    cli.answer({"passed": passed, "tables": found}, text.quality(found))
    if not passed:
        raise typer.Exit(exits.UNHEALTHY)
