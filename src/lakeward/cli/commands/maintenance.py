"""`vacuum`, `expire`, `checkpoint`, `undrop`, `jobs`, and helpers for maintenance commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.cli import exits
from lakeward.cli.arguments import complete_table
from lakeward.cli.context import Cli
from lakeward.cli.program import command

if TYPE_CHECKING:
    from lakeward.lake.records import Maintained

DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the plan and change nothing.")]
TableArgument = Annotated[
    str, typer.Argument(metavar="TABLE", help="A table.", autocompletion=complete_table)
]
BudgetOption = Annotated[
    str | None,
    typer.Option("--budget", metavar="TIME", help="Begin nothing after this time: 30m, 2h."),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, rich_help_panel="Upkeep")(vacuum)
    command(app, rich_help_panel="Upkeep")(expire)
    command(app, rich_help_panel="Upkeep")(checkpoint)
    command(app, rich_help_panel="Upkeep")(undrop)
    command(app, rich_help_panel="Upkeep")(jobs)


def vacuum(
    cli: Cli,
    tables: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TABLE",
            help="Only these tables; all, and dropped ones, unless given.",
            autocompletion=complete_table,
            show_default=False,
        ),
    ] = None,
    retention: Annotated[
        str | None,
        typer.Option(
            "--retention",
            metavar="TIME",
            help="How long versions are promised: 30d, 12h. As each table says unless given.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Allow a retention below 7 days.")] = False,
    unknown: Annotated[
        bool, typer.Option("--unknown", help="Also delete files that Lakeward does not know.")
    ] = False,
    dry_run: DryRun = False,
    budget: BudgetOption = None,
) -> None:
    """Delete files that neither a version within the retention nor anything else needs.

    Files that tags, branches, clones, pinned readers or open transactions need are kept. Exits with
    code 19 if there is nothing to do, and with 20 if the budget was spent first: run it again.
    """
    with cli.lake() as lake, cli.output.working("Vacuuming") as advance:
        result = lake.vacuum(
            tables=tables or None,
            retention=retention,
            dry_run=dry_run,
            force=force,
            unknown=unknown,
            budget=budget,
            progress=advance,
        )
    print_result(cli, result)


def expire(
    cli: Cli,
    table: TableArgument,
    retention: Annotated[
        str | None,
        typer.Option(
            "--retention",
            metavar="TIME",
            help="How long other engines can read old versions: 30d unless the table says.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Allow a retention below one hour.")
    ] = False,
    dry_run: DryRun = False,
    budget: BudgetOption = None,
) -> None:
    """Delete published metadata that other engines no longer need; the log keeps the history.

    Exits with code 19 if there is nothing to do, and with 20 if the budget was spent first: run it
    again.
    """
    with cli.lake() as lake, cli.output.working("Expiring") as advance:
        result = lake.table(table).expire(
            retention=retention, force=force, dry_run=dry_run, budget=budget, progress=advance
        )
    print_result(cli, result)


def checkpoint(
    cli: Cli,
    tables: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TABLE",
            help="Only these tables; all with new commits unless given.",
            autocompletion=complete_table,
            show_default=False,
        ),
    ] = None,
    dry_run: DryRun = False,
    budget: BudgetOption = None,
) -> None:
    """Write a checkpoint of the newest version of Delta tables, so that engines open them faster.

    Exits with code 19 if there is nothing to do, and with 20 if the budget was spent first: run it
    again.
    """
    with cli.lake() as lake, cli.output.working("Writing checkpoints") as advance:
        result = lake.checkpoint(
            tables=tables or None, dry_run=dry_run, budget=budget, progress=advance
        )
    print_result(cli, result)


def undrop(
    cli: Cli, table: Annotated[str, typer.Argument(metavar="TABLE", help="A dropped table.")]
) -> None:
    """Restore a dropped table with all its versions, unless vacuum has deleted its files."""
    with cli.lake() as lake:
        lake.undrop(table)
        version = lake.table(table).version
    cli.say(f"Table {table} is back, at version {version}.", {"table": table, "version": version})


def jobs(
    cli: Cli,
    kind: Annotated[
        str | None, typer.Option("--kind", metavar="KIND", help="Only of this kind: vacuum, …")
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(
            "--table", metavar="TABLE", help="Only of this table.", autocompletion=complete_table
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 20,
) -> None:
    """List maintenance runs, newest first, with what each of them did and how much it saved."""
    from lakeward.cli.views import maintenance as text

    with cli.lake() as lake:
        found = lake.jobs(kind=kind, table=table, limit=limit)
    cli.answer({"jobs": found}, text.jobs(found))


def print_result(cli: Cli, result: Maintained) -> None:
    """Print a plan or a run, and exit with the code of its outcome."""
    from lakeward.cli.views import maintenance as text

    cli.answer(result, text.maintained(result))
    code = {"nothing": exits.NOTHING_TO_DO, "stopped": exits.STOPPED}.get(result.state)
    if code is not None:
        raise typer.Exit(code)
