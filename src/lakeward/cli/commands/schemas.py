"""Commands on the columns and settings of a table: `alter`, `schema`."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeward.cli.arguments import TableArgument, VersionOption
from lakeward.cli.context import Cli
from lakeward.cli.program import command


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, rich_help_panel="Tables")(alter)
    command(app, rich_help_panel="Tables")(schema)


def alter(
    cli: Cli,
    table: TableArgument,
    changes: Annotated[
        list[str],
        typer.Argument(
            metavar="CHANGE...",
            help="What follows ALTER TABLE in SQL: `ADD COLUMN currency string DEFAULT 'EUR'`, "
            "`RENAME COLUMN amount TO total`, `ALTER COLUMN id TYPE bigint`.",
            show_default=False,
        ),
    ],
    message: Annotated[str | None, typer.Option("--message", "-m", help="Why.")] = None,
) -> None:
    """Change columns, properties and checks; several changes are one version."""
    with cli.lake() as lake:
        asked = lake.table(table).alter(message=message)
        for change in changes:
            asked.sql(change)
        with cli.output.working("Altering"):
            done = asked.commit()
        version = done.versions.get(table)
    facts = {"table": table, "version": version, "transaction_id": done.transaction_id}
    if version is None:
        cli.say(f"Table {table} is as it was: nothing had to change.", facts)
    else:
        cli.say(f"Table {table} is altered at version {version}.", facts)


def schema(
    cli: Cli,
    table: TableArgument,
    version: VersionOption = None,
    history: Annotated[
        bool, typer.Option("--history", help="Every schema that the table had, oldest first.")
    ] = False,
) -> None:
    """Show a table's columns, with the number of its schema, or all schemas that it had."""
    from lakeward.cli.views import schemas as text

    with cli.lake() as lake:
        source = lake.table(table)
        at = source.at(version=version).version
        found = [s for s in source.schemas() if history or s.has(at)]
    cli.answer({"table": table, "schemas": found}, text.schemas(found))
