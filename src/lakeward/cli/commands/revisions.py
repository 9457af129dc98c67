"""Commands that return tables to an earlier state: `restore`, `undo`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.cli.context import Cli
from lakeward.cli.program import command

if TYPE_CHECKING:
    from lakeward.lake.lake import Lake
    from lakeward.lake.records import CommitResult, Revision

DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Print which files and rows would change.")
]
MessageOption = Annotated[
    str | None, typer.Option("--message", "-m", help="Why; kept with the commit.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, rich_help_panel="History")(restore)
    command(app, rich_help_panel="History")(undo)


def restore(
    cli: Cli,
    tables: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TABLE...]", help="Only these tables; all unless given."),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="TAG|TIME|ID", help="A tag, a moment in ISO 8601, or a transaction."
        ),
    ] = None,
    version: Annotated[
        int | None,
        typer.Option("--version", min=0, metavar="N", help="To this version, of one table."),
    ] = None,
    dry_run: DryRunOption = False,
    message: MessageOption = None,
) -> None:
    """Restore tables to an earlier state, as new versions, in one transaction.

    No file is copied and the history is kept, so a restore can itself be undone.
    """
    if (at is None) == (version is None):
        raise typer.BadParameter("Give --at, or --version for one table.")  # noqa: EM101
    if version is not None and len(tables or ()) != 1:
        raise typer.BadParameter("--version is for one table: name it.")  # noqa: EM101
    result = None
    with cli.lake() as lake, cli.output.working("Restoring"):
        if version is not None and tables:
            found, result = _to_version(lake, tables[0], version, message, dry_run=dry_run)
        elif dry_run:
            found = lake.restore(at=str(at), tables=tables or None, dry_run=True)
        else:
            result = lake.restore(at=str(at), tables=tables or None, message=message)
            found = result.value
    _answer(cli, found, result)


def undo(
    cli: Cli,
    transaction: Annotated[str, typer.Argument(metavar="ID", help="The transaction's id.")],
    dry_run: DryRunOption = False,
    message: MessageOption = None,
) -> None:
    """Undo one transaction in all its tables; later transactions are kept.

    If a later transaction touched the same files, nothing changes and the error names it.
    """
    result = None
    with cli.lake() as lake, cli.output.working("Taking the transaction back"):
        if dry_run:
            found = lake.undo(transaction, dry_run=True)
        else:
            result = lake.undo(transaction, message=message)
            found = result.value
    _answer(cli, found, result)


def _to_version(
    lake: Lake, name: str, version: int, message: str | None, *, dry_run: bool
) -> tuple[Revision, CommitResult | None]:
    """Restore one table; return what was done, or would be done, and the result of the commit."""
    from lakeward.lake.revising import Revision

    table = lake.table(name)
    table.at(version=version)  # An unknown version is an error.
    if dry_run:
        (made,) = table.history(since=version, until=version)
        return lake.restore(at=made.transaction_id, tables=[name], dry_run=True), None
    result = table.restore(version=version, message=message)
    done = result.value
    return Revision((), (done.table,)) if done.is_empty else Revision((done,)), result


def _answer(cli: Cli, found: Revision, result: CommitResult | None) -> None:
    from lakeward.cli.views import revisions as text
    from lakeward.model.records import to_json

    done = {
        "dry_run": result is None,
        "transaction_id": None if result is None or not result.versions else result.transaction_id,
        "versions": {} if result is None else result.versions,
    }
    cli.answer({**to_json(found), **done}, text.revision(found, result))
