"""Commands on the lake as a whole: `init`, `tables`, `publish`, `outcome`, `locks`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lakeward.cli.context import Cli
from lakeward.cli.program import command
from lakeward.context import context_of


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
    """Make a lake. One that is there already is left as it is."""
    from lakeward.cli.views.answers import Done
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
        label, warehouse = context_of(lake).database.label, lake.warehouse
        count = len(lake.tables())
    sentence = f"A lake is made: {label}." if created else f"There is a lake already: {label}."
    cli.show(
        Done(
            sentence,
            {"lake": label, "warehouse": warehouse, "created": created, "tables": count},
            'Next: lakeward create sales.orders "id int64, amount double"' if created else None,
        )
    )


def tables(cli: Cli) -> None:
    """List the tables."""
    with cli.lake() as lake:
        from lakeward.cli.views.tables import TablesView

        view = TablesView.of(lake)
    cli.show(view)


def publish(cli: Cli) -> None:
    """Publish commits that are in the log and not yet in the tables' own files.

    Opening a lake does it too; this command says how much it was, and fails when something is in
    the way.
    """
    with cli.lake(repair=False) as lake, cli.output.working("Publishing"):
        from lakeward.cli.views.answers import PublishedView

        view = PublishedView(lake.publish())
    cli.show(view)


def outcome(
    cli: Cli,
    transaction: Annotated[str, typer.Argument(metavar="TRANSACTION", help="A transaction's id.")],
) -> None:
    """Tell what became of a transaction, by its id."""
    with cli.lake() as lake:
        from lakeward.cli.views.outcome import OutcomeView

        view = OutcomeView(lake.outcome(transaction))
    cli.show(view)


def locks(cli: Cli) -> None:
    """List the tables that are locked: by whom, since when, and who waits for them."""
    with cli.lake(repair=False) as lake:
        from lakeward.cli.views.locks import LocksView

        view = LocksView(tuple(lake.locks()))
    cli.show(view)
