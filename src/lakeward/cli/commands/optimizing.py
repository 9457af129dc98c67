"""`optimize`, `health` and `maintain`: the layout of the files of tables."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.cli import exits
from lakeward.cli.arguments import TableArgument, complete_table
from lakeward.cli.commands.maintenance import BudgetOption, DryRun, print_result
from lakeward.cli.context import Cli
from lakeward.cli.program import command
from lakeward.errors import InvalidInput, LakewardError
from lakeward.model.duration import to_milliseconds

if TYPE_CHECKING:
    from lakeward.lake.records import MaintenanceRun

_LOG = logging.getLogger(__name__)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, rich_help_panel="Upkeep")(health)
    command(app, rich_help_panel="Upkeep")(optimize)
    command(app, rich_help_panel="Upkeep")(maintain)


def health(
    cli: Cli,
    tables: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TABLE",
            help="Only these tables; all unless given.",
            autocompletion=complete_table,
            show_default=False,
        ),
    ] = None,
) -> None:
    """Score the file layout of tables from 0 to 100, with reasons and the commands that improve it.

    Lists the worst table first. Reads only the log, no data files.
    """
    from lakeward.cli.views import layout as text

    with cli.lake() as lake:
        chosen = [lake.table(t) for t in tables] if tables else lake.tables()
        found = sorted((t.health() for t in chosen), key=lambda h: (h.score, h.table))
    cli.answer({"tables": found}, text.health(found))


def optimize(
    cli: Cli,
    table: TableArgument,
    zorder: Annotated[
        list[str] | None,
        typer.Option(
            "--zorder", metavar="COLUMN", help="Cluster by a column; several times for more."
        ),
    ] = None,
    hilbert: Annotated[
        list[str] | None,
        typer.Option("--hilbert", metavar="COLUMN", help="Cluster on a Hilbert curve."),
    ] = None,
    sort: Annotated[
        list[str] | None,
        typer.Option("--sort", metavar="COLUMN", help="Sort by a column, the first one first."),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="SQL", help="Only files that may have matching rows."),
    ] = None,
    target_size: Annotated[
        str | None,
        typer.Option(
            "--target-size", metavar="SIZE", help="Size of files, 256mb; by the table's policy."
        ),
    ] = None,
    purge: Annotated[
        bool, typer.Option("--purge", help="Rewrite every file that has deleted rows.")
    ] = False,
    dry_run: DryRun = False,
    budget: BudgetOption = None,
) -> None:
    """Compact small files, cluster rows by columns, and purge deleted rows.

    Rewrites only files where it pays off. The rows do not change, and no writer waits or fails.
    Exits with code 19 if there was nothing to do, and 20 if the budget was spent.
    """
    with cli.lake() as lake, cli.output.working("Optimizing") as advance:
        result = lake.table(table).optimize(
            zorder=_columns(zorder),
            hilbert=_columns(hilbert),
            sort=_columns(sort),
            where=where,
            target_size=target_size,
            purge=purge,
            dry_run=dry_run,
            budget=budget,
            progress=advance,
        )
    print_result(cli, result)


def maintain(
    cli: Cli,
    tables: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TABLE",
            help="Only these tables; all unless given.",
            autocompletion=complete_table,
            show_default=False,
        ),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(
            "--window", metavar="TIMES", help='When it may run: "02:00-05:00 Europe/Lisbon".'
        ),
    ] = None,
    zorder_every: Annotated[
        str, typer.Option("--zorder-every", metavar="TIME", help="How often to cluster again.")
    ] = "1d",
    vacuum_every: Annotated[
        str, typer.Option("--vacuum-every", metavar="TIME", help="How often to vacuum.")
    ] = "7d",
    loop: Annotated[
        bool, typer.Option("--loop", help="Run as a service, until it is interrupted.")
    ] = False,
    interval: Annotated[
        str, typer.Option("--interval", metavar="TIME", help="Pause between rounds of --loop.")
    ] = "10m",
    dry_run: DryRun = False,
    budget: Annotated[
        str, typer.Option("--budget", metavar="TIME", help="Begin nothing after this time.")
    ] = "30m",
) -> None:
    """Do the most valuable maintenance first: compact, cluster daily, vacuum weekly.

    Stops between units of work when the budget or the window ends; the next run continues there.
    Several runs at once share the work. If a chore fails, the others are done, and the exit code is
    that of the error. Exits with code 19 when there was nothing to do or the window is closed, and
    20 when it was stopped.
    """
    from lakeward.cli.views import layout as text

    pause = to_milliseconds(interval, "interval") / 1000

    def one_round() -> MaintenanceRun:
        with cli.lake() as lake, cli.output.working("Maintaining") as advance:
            found = lake.maintain(
                tables=tables or None,
                window=window,
                budget=budget,
                zorder_every=zorder_every,
                vacuum_every=vacuum_every,
                dry_run=dry_run,
                progress=advance,
            )
        cli.answer(found, text.maintenance(found))
        return found

    while loop and not dry_run:
        try:
            one_round()
        except InvalidInput:
            raise
        except LakewardError as error:
            # A later round may succeed: the store or the warehouse may be back by then.
            _LOG.warning("This round of maintenance failed: %s", error)
        _pause(pause)
    result = one_round()
    code = {"nothing": exits.NOTHING_TO_DO, "closed": exits.NOTHING_TO_DO, "stopped": exits.STOPPED}
    if result.failed:
        raise typer.Exit(result.failed[0].exit_code)
    if result.state in code:
        raise typer.Exit(code[result.state])


def _pause(seconds: float) -> None:
    """Wait between two rounds."""
    time.sleep(seconds)


def _columns(given: list[str] | None) -> list[str] | None:
    """Return the columns of a repeated option whose values may be comma-separated."""
    if not given:
        return None
    return [name.strip() for text in given for name in text.split(",") if name.strip()]
