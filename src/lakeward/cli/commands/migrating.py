"""`migrate`: creates tables from directories of Parquet files or tables of another format."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeward.cli import exits
from lakeward.cli.context import Cli
from lakeward.cli.program import command


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, rich_help_panel="Upkeep")(migrate)


def migrate(
    cli: Cli,
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="A directory of Parquet files, a Delta or Iceberg table, or a table's name.",
            show_default=False,
        ),
    ],
    name: Annotated[
        str, typer.Argument(metavar="TABLE", help="The new table's name.", show_default=False)
    ],
    form: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="`delta` or `iceberg`.")
    ] = "delta",
    mode: Annotated[
        str,
        typer.Option("--mode", metavar="MODE", help="`copy` rows, or leave files `in-place`."),
    ] = "copy",
    partition_by: Annotated[
        list[str] | None,
        typer.Option(
            "--partition-by", metavar="COLUMN", help="As the source is unless given; repeatable."
        ),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify/--no-verify", help="Compare the table with the source.")
    ] = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the report and change nothing.")
    ] = False,
    report: Annotated[
        str | None,
        typer.Option("--report", metavar="FILE", help="Write the report: .html, or JSON."),
    ] = None,
) -> None:
    """Create a table from a directory of Parquet files, or from a table of another format.

    Run again, it adds new files and reports changed and deleted ones. Exits with code 9 if the
    table differs from the source or files of the source changed or were deleted, and 19 if there
    was nothing new.
    """
    from lakeward.cli.views import migration as text

    with cli.lake() as lake, cli.output.working("Migrating") as advance:
        found = lake.migrate(
            path,
            name,
            format=form,
            mode=mode,
            partition_by=partition_by or None,
            verify=verify,
            dry_run=dry_run,
            report=report,
            progress=advance,
        )
    cli.answer(found, text.migration(found))
    is_other = bool(found.checks) and not found.is_verified
    if is_other or (not dry_run and (found.changed or found.deleted)):
        raise typer.Exit(9)
    if found.state == "nothing":
        raise typer.Exit(exits.NOTHING_TO_DO)
