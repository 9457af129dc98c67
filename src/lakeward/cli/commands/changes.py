"""Commands that change a table, and that show who changed it: `delete`, `drop`, `audit`."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeward.cli.arguments import TableArgument
from lakeward.cli.context import Cli
from lakeward.cli.program import command

YesOption = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask; needed where nobody can answer.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, rich_help_panel="Tables")(delete)
    command(app, rich_help_panel="Tables")(drop)
    command(app, rich_help_panel="History")(audit)


def delete(
    cli: Cli,
    table: TableArgument,
    where: Annotated[
        str, typer.Option("--where", metavar="SQL", help="Rows for which this is true.")
    ],
    message: Annotated[
        str | None, typer.Option("--message", "-m", help="Why; kept with the commit.")
    ] = None,
    yes: YesOption = False,
) -> None:
    """Delete rows, in one transaction. Older versions still have them."""
    from lakeward.cli.output import words

    with cli.lake() as lake:
        rows = lake.table(table).at().count(where)
        if not rows:
            facts = {"table": table, "deleted": 0, "version": None, "transaction_id": None}
            cli.say(f"No row of {table} is one of these. Nothing was changed.", facts)
            return
        cli.confirm(f"Delete {words.counted(rows, 'row')} of {table}?", yes=yes)
        with cli.output.working("Deleting"), lake.transaction(message=message) as tx:
            done = tx.delete(table, where=where)
        result = tx.commit()
    version = result.versions[table]
    count = rows if done.deleted is None else done.deleted
    cli.say(
        f"Deleted {words.counted(count, 'row')} of {table}, which is at version {version}.",
        {
            "table": table,
            "deleted": done.deleted,
            "version": version,
            "transaction_id": result.transaction_id,
        },
    )


def drop(cli: Cli, table: TableArgument, yes: YesOption = False) -> None:
    """Take a table out of the lake. Its files stay where they are."""
    with cli.lake() as lake:
        found = lake.table(table)
        facts = {"table": found.name, "version": found.version, "location": found.location}
        cli.confirm(f"Drop {table}, which is at version {facts['version']}?", yes=yes)
        lake.drop(table)
    cli.say(f"Table {table} is dropped. Its files stay at {facts['location']}.", facts)


def audit(
    cli: Cli,
    table: TableArgument,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many, the newest.")] = 20,
) -> None:
    """List who did what to a table, oldest first."""
    from lakeward.cli.views import history as text

    with cli.lake() as lake:
        entries = list(lake.table(table).audit())
    shown, more = entries[-limit:], len(entries) > limit
    cli.answer({"table": table, "entries": shown, "more": more}, text.audit(shown, more=more))
