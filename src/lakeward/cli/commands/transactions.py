"""Commands over all tables: `transactions`, `transactions show`, `snapshot`, `violations`."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeward.cli.arguments import AtOption
from lakeward.cli.context import Cli
from lakeward.cli.program import command, group


def register(app: typer.Typer) -> None:
    """Add the commands."""
    several = typer.Typer()
    group(several)(transactions)
    command(several, "show")(show)
    app.add_typer(several, name="transactions", rich_help_panel="Lake")
    command(app, rich_help_panel="Lake")(snapshot)
    command(app, rich_help_panel="Lake")(violations)


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
    """List the newest transactions, also open ones, with their actors, isolation and tables."""
    from lakeward.cli.views import lakes as text

    with cli.lake() as lake:
        found = lake.transactions(state=state, limit=limit + 1)
    shown, more = found[:limit], len(found) > limit
    cli.answer({"transactions": shown, "more": more}, text.transactions(shown, more=more))


def show(
    cli: Cli,
    transaction: Annotated[str, typer.Argument(metavar="ID", help="A transaction's id.")],
) -> None:
    """Show one transaction: its outcome, and the version that it wrote of each table."""
    from lakeward.cli.views import lakes as text

    with cli.lake() as lake:
        # A commit to an open table may be published and not yet in the log: this takes it in.
        lake.outcome(transaction)
        found = lake.transaction_record(transaction)
    cli.answer(found, text.transaction(found))


def snapshot(
    cli: Cli,
    at: AtOption = None,
) -> None:
    """Show one consistent cut over all tables: the version of each, by which to read it.

    Every transaction is in the cut with all its tables, or with none.
    """
    from lakeward.cli.views import lakes as text

    with cli.lake() as lake:
        found = lake.snapshot(at=at).info()
    cli.answer(found, text.cut(found))


def violations(
    cli: Cli,
    table: Annotated[
        str | None, typer.Argument(metavar="[TABLE]", help="Only violations of this table.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many violations.")] = 20,
) -> None:
    """List the newest violations of constraints, including those by failed transactions."""
    from lakeward.cli.views import violations as text

    with cli.lake() as lake:
        found = lake.violations(table=table, limit=limit + 1)
    shown, more = found[:limit], len(found) > limit
    cli.answer({"violations": shown, "more": more}, text.violations(shown, more=more))
