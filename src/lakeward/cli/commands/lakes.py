"""Commands on the lake as a whole: `init`, `tables`, `publish`, `outcome`, `locks`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lakeward.cli.context import Cli
from lakeward.cli.program import command


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, rich_help_panel="Lake")(init)
    command(app, rich_help_panel="Lake")(tables)
    command(app, rich_help_panel="Lake")(publish)
    command(app, rich_help_panel="Lake")(outcome)
    command(app, rich_help_panel="Lake")(locks)


def init(
    cli: Cli,
    directory: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="Where; the same as --lake.")
    ] = None,
) -> None:
    """Create a lake. A lake that exists is not changed."""
    from lakeward.errors import InvalidInput, LakeNotFound

    if directory is not None and cli.lake_given not in (None, str(directory)):
        what = "The lake is given twice, as DIR and as --lake."
        raise InvalidInput(what, hint="Leave one of them out.")
    target = cli.target if directory is None else str(directory)
    try:
        with cli.lake(target=target):
            created = False
    except LakeNotFound:
        created = True
    with cli.lake(create=True, target=target) as lake:
        facts = {
            "lake": lake.label,
            "warehouse": lake.warehouse,
            "created": created,
            "tables": len(lake.tables()),
        }
    if created:
        then = 'Next: lakeward create sales.orders "id int64, amount double"'
        cli.say(f"A lake is made: {lake.label}.", facts, then)
    else:
        cli.say(f"There is a lake already: {lake.label}.", facts)


def tables(cli: Cli) -> None:
    """List the tables."""
    from lakeward.cli.views import lakes as text

    with cli.lake() as lake:
        found = [table.info() for table in lake.snapshot()]
    cli.answer({"lake": lake.label, "tables": found}, text.tables(lake.label, found))


def publish(cli: Cli) -> None:
    """Publish commits that are in the log and not yet in the tables' own files.

    Opening a lake does this too; this command prints how many versions were published, and fails if
    one cannot be.
    """
    from lakeward.cli.views import lakes as text

    with cli.lake(repair=False) as lake, cli.output.working("Publishing") as advance:
        found = lake.publish(progress=advance)
    cli.answer({"published": found, "total": sum(found.values())}, text.published(found))


def outcome(
    cli: Cli,
    transaction: Annotated[str, typer.Argument(metavar="TRANSACTION", help="A transaction's id.")],
) -> None:
    """Show the outcome of a transaction, by its id."""
    from lakeward.cli.views import lakes as text

    with cli.lake() as lake:
        found = lake.outcome(transaction)
    cli.answer(found, text.outcome(found))


def locks(cli: Cli) -> None:
    """List the locked tables: the holders, since when, and the transactions that wait for them."""
    from lakeward.cli.views import lakes as text

    with cli.lake(repair=False) as lake:
        found = lake.locks()
    cli.answer({"locks": found}, text.locks(found))
