"""`quality`, `statistics`, `sla`: expectations, sizes of tables and columns, service levels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lakeward.cli import exits
from lakeward.cli.arguments import complete_table
from lakeward.cli.context import Cli, absolute
from lakeward.cli.program import command


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, rich_help_panel="Upkeep")(quality)
    command(app, rich_help_panel="Tables")(statistics)
    command(app, rich_help_panel="Upkeep")(sla)


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


def statistics(
    cli: Cli,
    table: Annotated[
        str, typer.Argument(metavar="TABLE", help="A table.", autocompletion=complete_table)
    ],
    version: Annotated[
        int | None, typer.Option("--version", metavar="V", min=0, help="Of this version.")
    ] = None,
    distinct: Annotated[
        list[str] | None,
        typer.Option("--distinct", metavar="C", help="Estimate the different values of a column."),
    ] = None,
    growth: Annotated[
        int | None,
        typer.Option("--growth", metavar="N", min=1, help="The size after the newest N versions."),
    ] = None,
) -> None:
    """Show the size of a version, and nulls and bounds of its columns, from the log."""
    from lakeward.cli.views import statistics as text

    with cli.lake() as lake:
        if growth is not None:
            sizes = lake.table(table).growth(limit=growth)
            cli.answer({"table": table, "growth": sizes}, text.growth(sizes))
            return
        with cli.output.working("Reading values" if distinct else "Reading the log"):
            found = lake.table(table).statistics(version=version, distinct=distinct or ())
    cli.answer(found, text.statistics(found))


def sla(
    cli: Cli,
    apply: Annotated[
        Path | None,
        typer.Option(
            "--apply", metavar="FILE", help="Declare the service levels of a TOML file first."
        ),
    ] = None,
    remove: Annotated[
        str | None, typer.Option("--remove", metavar="NAME", help="Remove a service level first.")
    ] = None,
) -> None:
    """Show how far service levels are attained, and how much of the error budget is left.

    They are computed from the log. Ends with code 12 if one is not attained.
    """
    from lakeward.cli.views import quality as text

    with cli.lake() as lake:
        if apply is not None:
            for name, level in _toml(absolute(apply)).items():
                lake.set_service_level(name, level)
        if remove is not None:
            lake.set_service_level(remove, None)
        found = lake.sla()
    kept = all(one.kept is not False for one in found)
    cli.answer({"kept": kept, "service_levels": found}, text.service_levels(found))
    if not kept:
        raise typer.Exit(exits.UNHEALTHY)


def _toml(path: Path) -> dict[str, Any]:
    import tomllib

    from lakeward.errors import InvalidInput, NotFound

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        what = f"The file {path} cannot be read: {error.strerror}."
        raise NotFound(what, path=str(path)) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        what = f"The file {path} cannot be read as TOML: {error}."
        raise InvalidInput(what) from error
