"""Commands over all tables at once: `transactions`, `transactions show`, `snapshot`."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeward.cli.context import Cli
from lakeward.cli.program import command, group


def register(app: typer.Typer) -> None:
    """Add the commands."""
    several = typer.Typer()
    group(several)(transactions)
    command(several, "show")(show)
    app.add_typer(several, name="transactions", rich_help_panel="Lake")
    command(app, rich_help_panel="Lake")(snapshot)


def transactions(
    cli: Cli,
    state: Annotated[
        str | None,
        typer.Option(
            "--state", metavar="STATE", help="Only open, ratified, rolled_back or expired ones."
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, help="At most so many transactions.")
    ] = 20,
) -> None:
    """List the newest transactions, open ones too: who, at which isolation, on which tables."""
    with cli.lake() as lake:
        from lakeward.cli.views.transactions import TransactionsView

        found = lake.transactions(state=state, limit=limit + 1)
        view = TransactionsView(tuple(found[:limit]), more=len(found) > limit)
    cli.show(view)


def show(
    cli: Cli,
    transaction: Annotated[str, typer.Argument(metavar="ID", help="A transaction's id.")],
) -> None:
    """Show one transaction: what became of it, and the version it made of each table."""
    with cli.lake() as lake:
        from lakeward.cli.views.transactions import TransactionView

        # Settles first what an open table may still have to say about it.
        lake.outcome(transaction)
        view = TransactionView(lake.transaction_record(transaction))
    cli.show(view)


def snapshot(
    cli: Cli,
    at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="TIME|ID", help="A moment in ISO 8601, or a transaction's id."
        ),
    ] = None,
) -> None:
    """Show one consistent cut over all tables: the version of each, to read them by.

    Every transaction is in it with all its tables, or with none.
    """
    with cli.lake() as lake:
        from lakeward.cli.views.transactions import SnapshotView

        view = SnapshotView.of(lake.snapshot(at=at))
    cli.show(view)
