"""Commands on the history of a table: `history`, `versions`, `diff`."""

from __future__ import annotations

from itertools import chain
from typing import Annotated

import typer

from lakeward.cli.arguments import TableArgument
from lakeward.cli.context import Cli
from lakeward.cli.program import command


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, rich_help_panel="History")(history)
    command(app, rich_help_panel="History")(versions)
    command(app, rich_help_panel="History")(diff)


def history(
    cli: Cli,
    table: TableArgument,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many versions.")] = 20,
    since: Annotated[
        int | None, typer.Option("--since", min=0, metavar="N", help="None older than version N.")
    ] = None,
    until: Annotated[
        int | None, typer.Option("--until", min=0, metavar="N", help="None newer than version N.")
    ] = None,
    transaction: Annotated[
        bool,
        typer.Option("--transaction", help="Show the other tables of each transaction too."),
    ] = False,
) -> None:
    """List a table's versions, newest first: who did what, when and why."""
    from lakeward.cli.views import history as text
    from lakeward.model.records import to_json

    with cli.lake() as lake:
        found = lake.table(table).history(limit=limit + 1, since=since, until=until)
        shown, more = found[:limit], len(found) > limit
        # Commits that other engines made are no transactions of the lake.
        several = {v.transaction_id for v in shown if v.members > 1 and not v.adopted}
        tables = {i: lake.transaction_record(i).versions for i in several} if transaction else None
    records: list[object] = list(shown)
    if tables is not None:
        records = [
            {**to_json(v), "tables": tables.get(v.transaction_id, {table: v.version})}
            for v in shown
        ]
    answer = {"table": table, "versions": records, "more": more}
    cli.answer(answer, text.versions(table, shown, more=more, tables=tables))


def versions(
    cli: Cli,
    table: TableArgument,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="From this moment on (ISO 8601).")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Up to this moment (ISO 8601).")
    ] = None,
) -> None:
    """List the versions of a time range, oldest first."""
    from lakeward.cli.views import history as text

    with cli.lake() as lake:
        found = lake.table(table).versions(since=since, until=until)
    cli.answer({"table": table, "versions": found, "more": False}, text.versions(table, found))


def diff(
    cli: Cli,
    table: TableArgument,
    before: Annotated[
        int | None,
        typer.Argument(
            metavar="FROM", min=0, help="A version; the one before the newest unless given."
        ),
    ] = None,
    after: Annotated[
        int | None,
        typer.Argument(metavar="TO", min=0, help="A version; the newest unless given."),
    ] = None,
    files: Annotated[int, typer.Option("--files", min=0, help="List at most so many files.")] = 20,
    rows: Annotated[
        bool, typer.Option("--rows", help="Compare the rows, and show some that differ.")
    ] = False,
    key: Annotated[
        str | None,
        typer.Option(
            "--key", metavar="A,B,…", help="With --rows: the columns that identify a row."
        ),
    ] = None,
    other: Annotated[
        str | None,
        typer.Option("--with", metavar="TABLE", help="Compare the rows with those of this table."),
    ] = None,
    sample: Annotated[
        int, typer.Option("--sample", min=0, help="Show at most so many rows of each kind.")
    ] = 20,
) -> None:
    """Show what changed between two versions: rows, files, partitions, schema and properties."""
    from lakeward.cli.views import history as text
    from lakeward.cli.views import row_diff

    keys = None if key is None else [part.strip() for part in key.split(",")]
    if key is not None and not rows and other is None:
        raise typer.BadParameter("--key is for --rows.")  # noqa: EM101
    with cli.lake() as lake:
        source = lake.table(table)
        if other is not None:
            left = source if before is None else source.at(version=before)
            with cli.output.working("Comparing"):
                found_rows = lake.diff(left, other, key=keys, sample=sample)
            cli.answer(found_rows, row_diff.rows(found_rows))
            return
        newest = source.version
        first = max(0, newest - 1) if before is None else before
        with cli.output.working("Comparing"):
            found = source.diff(
                first, newest if after is None else after, rows=rows, key=keys, sample=sample
            )
    shown = chain(text.diff(found, listed=files), row_diff.rows(found.rows))
    cli.answer(found, shown)
