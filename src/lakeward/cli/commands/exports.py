"""`export` and `retention`: write versions of tables as files; show which versions can be read."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeward.cli.arguments import AtOption, ParamOption, TableArgument
from lakeward.cli.context import Cli
from lakeward.cli.program import command


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, rich_help_panel="History")(export)
    command(app, rich_help_panel="History")(retention)


def export(
    cli: Cli,
    dest: Annotated[
        str,
        typer.Argument(metavar="DEST", help="A directory that does not exist, or s3://… and such."),
    ],
    tables: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TABLE...]", help="Only these tables; all unless given."),
    ] = None,
    at: AtOption = None,
    version: Annotated[
        int | None, typer.Option("--version", min=0, metavar="N", help="Of one table.")
    ] = None,
    format_: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="parquet, csv, jsonl or arrow.")
    ] = "parquet",
    partition_by: Annotated[
        list[str] | None,
        typer.Option(
            "--partition-by", metavar="COLUMN", help="Columns for directories; one table only."
        ),
    ] = None,
    max_rows: Annotated[
        int | None, typer.Option("--max-rows-per-file", min=1, metavar="N", help="Then another.")
    ] = None,
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="SQL", help="Only matching rows; one table only."),
    ] = None,
    param: ParamOption = None,
) -> None:
    """Write tables as files that need no lake, with a manifest of versions, rows and checksums.

    One table is written into the directory itself; several tables, all at one consistent cut, into
    a directory each. The directory appears when it is complete.
    """
    from lakeward.cli.views import exports as text
    from lakeward.model.parameter_values import of_texts

    params = of_texts(param)
    single = len(tables or ()) == 1
    if not single and (version is not None or partition_by or where is not None or params):
        message = "--version, --partition-by, --where and --param are for one table: name it."
        raise typer.BadParameter(message)
    if at is not None and version is not None:
        raise typer.BadParameter("Give --at or --version, not both.")  # noqa: EM101
    with cli.lake() as lake, cli.output.working("Exporting") as advance:
        if single and tables:
            source = (
                lake.snapshot(at=at).table(tables[0])
                if version is None
                else lake.table(tables[0]).at(version=version)
            )
            done = [
                source.export(
                    dest,
                    format=format_,
                    partition_by=partition_by or (),
                    max_rows_per_file=max_rows,
                    where=where,
                    params=params,
                    progress=advance,
                )
            ]
        else:
            with lake.snapshot(at=at) as cut:
                done = cut.export(
                    dest,
                    tables=tables or None,
                    format=format_,
                    max_rows_per_file=max_rows,
                    progress=advance,
                )
    cli.answer({"exports": done}, text.exported(done))


def retention(cli: Cli, table: TableArgument) -> None:
    """Show which versions of a table can be read, and which of them are promised to be kept."""
    from lakeward.cli.views import exports as text

    with cli.lake() as lake:
        found = lake.table(table).retention()
    cli.answer(found, text.retention(found))
