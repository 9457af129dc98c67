"""Commands on copies that share their files with the original: `clone` and `branch …`."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeward.cli.arguments import TableArgument, TimestampOption, VersionOption
from lakeward.cli.context import Cli
from lakeward.cli.program import command

BranchArgument = Annotated[str, typer.Argument(metavar="BRANCH", help="The branch's name.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, rich_help_panel="Tables")(clone)
    branch = typer.Typer(help="Work on copies of tables that copy nothing, then publish them.")
    command(branch, "list")(list_branches)
    command(branch)(create)
    command(branch)(show)
    command(branch)(diff)
    command(branch)(publish)
    command(branch)(drop)
    app.add_typer(branch, name="branch", rich_help_panel="Tables")


def clone(
    cli: Cli,
    table: TableArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the new table is called.")],
    version: VersionOption = None,
    timestamp: TimestampOption = None,
) -> None:
    """Create a table from the files of another one, as of now or a version; no file is copied."""
    with cli.lake() as lake:
        made = lake.clone(table, name, version=version, timestamp=timestamp)
        source = int(made.history()[0].parameters["sourceVersion"])
        facts = {
            "table": made.name,
            "source": table,
            "source_version": source,
            "version": made.version,
            "location": made.location,
        }
    cli.say(f"Table {made.name} has the files of {table}, version {source}.", facts)


def list_branches(cli: Cli) -> None:
    """List the branches."""
    from lakeward.cli.views import branches as text

    with cli.lake() as lake:
        found = [branch.info() for branch in lake.branches()]
    cli.answer({"branches": found}, text.branches(found))


def create(
    cli: Cli,
    branch: BranchArgument,
    tables: Annotated[list[str], typer.Argument(metavar="TABLE...", help="What it is a copy of.")],
) -> None:
    """Create a branch of tables, all at one consistent cut."""
    _show(cli, branch, tables)


def show(cli: Cli, branch: BranchArgument) -> None:
    """Show the locations of a branch's tables, for engines."""
    _show(cli, branch)


def diff(cli: Cli, branch: BranchArgument) -> None:
    """Show what publishing a branch would do, and conflicts that prevent it."""
    from lakeward.cli.views import branches as text

    with cli.lake() as lake:
        found = lake.branch(branch).diff()
    cli.answer({"branch": branch, "tables": found}, text.diff(found))


def publish(
    cli: Cli,
    branch: BranchArgument,
    message: Annotated[
        str | None, typer.Option("--message", "-m", help="Why; kept with the commit.")
    ] = None,
) -> None:
    """Commit all changes of a branch as one transaction, and end the branch."""
    with cli.lake() as lake, cli.output.working("Publishing the branch"):
        result = lake.branch(branch).publish(message=message)
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    cli.say(
        f"Branch {branch} is published: {versions or 'nothing was done on it'}.",
        {
            "branch": branch,
            "transaction_id": result.transaction_id,
            "versions": result.versions,
        },
    )


def drop(cli: Cli, branch: BranchArgument) -> None:
    """Delete a branch with all its changes."""
    with cli.lake() as lake:
        lake.branch(branch).drop()
    cli.say(f"Branch {branch} is dropped.", {"branch": branch})


def _show(cli: Cli, branch: str, tables: list[str] | None = None) -> None:
    from lakeward.cli.views import branches as text

    with cli.lake() as lake:
        found = lake.branch(branch, tables=tables).info()
    cli.answer(found, text.branch(found))
