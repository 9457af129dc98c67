"""Commands on copies that copy nothing: `clone` and `branch …`."""

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
    """Make a table of another one's files, as they are now or were; nothing is copied."""
    from lakeward.cli.views.answers import Done

    with cli.lake() as lake:
        made = lake.clone(table, name, version=version, timestamp=timestamp)
        told = made.history()[0].parameters
        view = Done(
            f"Table {made.name} has the files of {table}, version {told['sourceVersion']}.",
            {
                "table": made.name,
                "source": table,
                "source_version": int(told["sourceVersion"]),
                "version": made.version,
                "location": made.location,
            },
        )
    cli.show(view)


def list_branches(cli: Cli) -> None:
    """List the branches."""
    from lakeward.cli.views.branches import BranchesView

    with cli.lake() as lake:
        view = BranchesView.of(lake.branches())
    cli.show(view)


def create(
    cli: Cli,
    branch: BranchArgument,
    tables: Annotated[list[str], typer.Argument(metavar="TABLE...", help="What it is a copy of.")],
) -> None:
    """Make a branch of tables, all as they are at one moment."""
    from lakeward.cli.views.branches import BranchView

    with cli.lake() as lake:
        view = BranchView.of(lake.branch(branch, tables=tables))
    cli.show(view)


def show(cli: Cli, branch: BranchArgument) -> None:
    """Show where engines find a branch's tables."""
    from lakeward.cli.views.branches import BranchView

    with cli.lake() as lake:
        view = BranchView.of(lake.branch(branch))
    cli.show(view)


def diff(cli: Cli, branch: BranchArgument) -> None:
    """Show what publishing a branch would do, and what stands in the way."""
    from lakeward.cli.views.branches import BranchDiffView

    with cli.lake() as lake:
        view = BranchDiffView(branch, tuple(lake.branch(branch).diff()))
    cli.show(view)


def publish(
    cli: Cli,
    branch: BranchArgument,
    message: Annotated[
        str | None, typer.Option("--message", "-m", help="Why; kept with the commit.")
    ] = None,
) -> None:
    """Commit all that was done on a branch, as one transaction; then the branch is over."""
    from lakeward.cli.views.answers import Done

    with cli.lake() as lake, cli.output.working("Publishing the branch"):
        result = lake.branch(branch).publish(message=message)
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    view = Done(
        f"Branch {branch} is published: {versions or 'nothing was done on it'}.",
        {
            "branch": branch,
            "transaction_id": result.transaction_id,
            "versions": dict(result.versions),
        },
    )
    cli.show(view)


def drop(cli: Cli, branch: BranchArgument) -> None:
    """Delete a branch with all that was written on it."""
    from lakeward.cli.views.answers import Done

    with cli.lake() as lake:
        lake.branch(branch).drop()
    cli.show(Done(f"Branch {branch} is dropped.", {"branch": branch}))
