"""The command `changes`, which prints changed rows and can wait for new ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeward.cli.arguments import ParamOption, complete_table
from lakeward.cli.context import Cli
from lakeward.cli.program import command
from lakeward.errors import VersionNotFound

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeward.lake.lake import Lake


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, rich_help_panel="History")(changes)


def changes(
    cli: Cli,
    table: Annotated[
        str | None,
        typer.Argument(
            metavar="[TABLE]",
            help="A table, whose changed rows are printed; without it, the transactions of all.",
            autocompletion=complete_table,
            show_default=False,
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="N|TIME|TAG|ID",
            help="The first version (without TABLE: position), time or transaction, or what came"
            " after a tag. The newest version unless given; with --follow, only new ones.",
            show_default=False,
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until", metavar="N|TIME|TAG|ID", help="The last version.", show_default=False
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option("--columns", metavar="A,B,…", help="These columns, in this order."),
    ] = None,
    where: Annotated[
        str | None, typer.Option("--where", metavar="SQL", help="Rows for which this is true.")
    ] = None,
    param: ParamOption = None,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="A,B,…", help="Pair deleted and inserted rows by these."),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=0, metavar="N", help="End after so many lines."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue with new transactions.")
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout", min=0, metavar="SECONDS", help="With --follow: end after so long a pause."
        ),
    ] = None,
) -> None:
    """Print the rows that versions of a table inserted, updated and deleted, one per line.

    Both ends are in the range. With --json each line is an object. Without a table, the command
    prints the transactions of the whole lake in commit order.
    """
    from lakeward.cli.output.change_lines import Lines
    from lakeward.model.parameter_values import of_texts

    if follow and until is not None:
        raise typer.BadParameter("--until cannot be combined with --follow.")  # noqa: EM101
    if table is None and (until or columns or where or key or param):
        message = "Name a table for --until, --columns, --where, --param, --key."
        raise typer.BadParameter(message)
    lines = Lines(as_json=cli.json, limit=limit)
    with cli.lake() as lake:
        if table is None:
            found = (
                lake.follow(since=_point(since), timeout=timeout)
                if follow
                else lake.changes(since=_point(since))
            )
            for change in found:
                if not lines.transaction(change):
                    return
            return
        chosen = {
            "columns": _names(columns),
            "where": where,
            "params": of_texts(param),
            "key": _names(key),
        }
        for reader in _readers(lake, table, since, until, chosen, follow=follow, timeout=timeout):
            with cli.output.reading("Reading changes", reader) as batches:
                for batch in batches:
                    if not lines.rows(batch):
                        return


def _readers(
    lake: Lake,
    name: str,
    since: str | None,
    until: str | None,
    chosen: dict[str, Any],
    *,
    follow: bool,
    timeout: float | None,
) -> Iterator[pa.RecordBatchReader]:
    """Yield the changes of the range, then those of each new version."""
    table = lake.table(name)
    newest = table.history(limit=1)[0]
    if since is not None or not follow:
        first = newest.version if since is None else _point(since)
        last = newest.version if until is None else _point(until)
        try:
            found = table.changes(since=first, until=last, **chosen)
        except VersionNotFound as error:
            # The range may begin with the next version, which is waited for.
            is_next = error.facts.get("version") == newest.version + 1
            if not (follow and (is_next or "timestamp" in error.facts)):
                raise
        else:
            yield found
    if not follow:
        return
    for change in lake.follow(since=newest.transaction_id, tables=[name], timeout=timeout):
        for part in change.tables.values():
            if part.version > newest.version:
                yield part.to_reader(**chosen)


def _point(text: str | None) -> Any:
    """Return a number as a version or position, and any other text unchanged."""
    return int(text) if text is not None and text.lstrip("-").isdecimal() else text


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",")]
