"""`metrics` and `lineage`: figures about the lake, and the sources of rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lakeward.cli.arguments import complete_table
from lakeward.cli.context import Cli, absolute
from lakeward.cli.program import command


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, rich_help_panel="Upkeep")(metrics)
    command(app, rich_help_panel="History")(lineage)


def lineage(
    cli: Cli,
    table: Annotated[
        str | None,
        typer.Argument(
            metavar="TABLE",
            help="A table's name; the whole lake unless given.",
            autocompletion=complete_table,
            show_default=False,
        ),
    ] = None,
    column: Annotated[
        str | None, typer.Option("--column", metavar="C", help="Only of this column.")
    ] = None,
    file: Annotated[
        str | None,
        typer.Option("--file", metavar="F", help="What comes from this file, instead of a table."),
    ] = None,
    downstream: Annotated[
        bool, typer.Option("--downstream", help="What comes from it, instead of its sources.")
    ] = False,
    affected: Annotated[
        bool,
        typer.Option("--affected", help="List what is affected if the column is dropped."),
    ] = False,
    depth: Annotated[
        int | None, typer.Option("--depth", metavar="N", min=1, help="At most so many steps.")
    ] = None,
    version: Annotated[
        int | None, typer.Option("--version", metavar="V", min=0, help="As of this version.")
    ] = None,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="Print a diagram of Mermaid.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page of HTML.")
    ] = None,
) -> None:
    """Show the sources of a table's rows as a tree, or the tables whose rows come from it.

    `value`: values are computed from the source. `rows`: the source decides which rows there are.
    `unknown`: the source is not recorded.
    """
    from lakeward.cli.output import words
    from lakeward.errors import InvalidInput

    if affected:
        _affected(cli, table, column)
        return
    if file is not None and table is not None:
        what = "--file is given beside a table."
        raise InvalidInput(what, hint="Write lakeward lineage --file PATH.")
    if table is None and (column or depth or version is not None or downstream):
        what = "--column, --downstream, --depth and --version need a table."
        raise InvalidInput(what, hint="Write lakeward lineage TABLE.")
    with cli.lake() as lake:
        if table is None:
            found = lake.lineage(file=file)
        else:
            direction = "downstream" if downstream else "upstream"
            found = lake.table(table).lineage(
                direction=direction, depth=depth, column=column, version=version
            )
    if html is not None:
        absolute(html).write_text(found.to_html(), encoding="utf-8")
        cli.say(f"The lineage is written to {html}.", {"file": html})
    elif mermaid and not cli.json:
        typer.echo(found.to_mermaid(), nl=False)
    else:
        cli.answer(found, (words.line(text) for text in found.tree()))


def _affected(cli: Cli, table: str | None, column: str | None) -> None:
    from lakeward.cli.views import lineage as text
    from lakeward.errors import InvalidInput

    if table is None or column is None:
        what = "--affected needs a table and a column of it."
        raise InvalidInput(what, hint="Write lakeward lineage TABLE --column C --affected.")
    with cli.lake() as lake:
        found = lake.table(table).affected(column)
    cli.answer({"table": table, "column": column, "affected": found}, text.affected(found))


def metrics(
    cli: Cli,
    tables: Annotated[
        int,
        typer.Option(
            "--tables",
            metavar="N",
            min=0,
            help="How many tables have labels of their own; the others are summed as `other`.",
        ),
    ] = 100,
    health: Annotated[
        bool, typer.Option("--health", help="Score the files of these tables too.")
    ] = False,
    textfile: Annotated[
        Path | None,
        typer.Option(
            "--textfile",
            metavar="FILE",
            help="Write them to a file, for the textfile collector of node_exporter.",
        ),
    ] = None,
) -> None:
    """Print the metrics of the lake once, in the text format of Prometheus.

    They are computed from the log, over all processes: tables, transactions, locks, publication,
    runs, maintenance, sinks, consumers. Nothing is repaired or changed.
    """
    from lakeward.integrations.prometheus import exposition, write_textfile

    with cli.lake(repair=False) as lake:
        found = lake.metrics(tables=tables, health=health, process=False)
    if textfile is not None:
        write_textfile(found, absolute(textfile))
        count = sum(len(metric.samples) for metric in found.metrics)
        cli.say(f"{count} values are written to {textfile}.", {"file": textfile, "values": count})
    elif cli.json:
        cli.answer(found, ())
    else:
        typer.echo(exposition(found), nl=False)
