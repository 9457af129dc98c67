"""The command line: `lakeward …`.

Exit codes are those of `lakeward.cli.exits`: 0 when it was done, 2 for wrong usage or input, 3 when
something is not found, 4 when it exists already, 5 for a conflict, 6 for an unknown outcome, 7 when
the store cannot be used, 8 when files or the output cannot, 9 when publication is blocked, 10 for a
table that cannot be understood, 11 for a missing library, 12 when doctor found an error, 13 when
the demo failed, 14 when a commit hook refused, 15 when another transaction holds the table, 16 when
rows could not be staged, 17 when a newer instance of a writer took over, 18 when a step of a
pipeline failed, 19 when maintenance had nothing to do, 20 when its budget was spent, 130 after
Ctrl-C, and 1 for anything else.

Only what parsing needs is imported here: `lakeward.cli.catalogue` has the commands by name and
imports only the module of the command that is run, which loads the lake when it runs.
"""

from __future__ import annotations

from typing import Annotated

import typer

from lakeward.cli import exits
from lakeward.cli.context import Cli
from lakeward.cli.interrupts import keep_interrupts
from lakeward.cli.program import JsonOption, LakeOption, Program, UtcOption, WarehouseOption
from lakeward.cli.streams import prepare_streams

app = typer.Typer(
    cls=Program,
    name="lakeward",
    epilog=exits.table(),
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the program."""
    keep_interrupts()
    prepare_streams()
    app()


@app.callback(invoke_without_command=True)
def _root(
    ctx: typer.Context,
    lake: LakeOption = None,
    warehouse: WarehouseOption = None,
    json: JsonOption = False,
    utc: UtcOption = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version and end.")] = False,
) -> None:
    """The transaction log of your Delta and Iceberg tables in a database.

    Start with `lakeward demo`, or with `lakeward init`.
    """
    cli: Cli = ctx.obj
    cli.take(lake=lake, warehouse=warehouse, json=json, utc=utc)
    if version:
        from importlib import metadata

        number = metadata.version("lakeward")
        cli.say(f"lakeward {number}", {"version": number})
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        if json:
            message = "A command is missing."
            raise typer.BadParameter(message, ctx=ctx)
        typer.echo(ctx.get_help())
