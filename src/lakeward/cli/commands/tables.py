"""Commands on one table: `create`, `adopt`, `show`, `read`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lakeward.cli.arguments import (
    ParamOption,
    TableArgument,
    TagOption,
    TimestampOption,
    TransactionOption,
    VersionOption,
)
from lakeward.cli.context import Cli, absolute
from lakeward.cli.program import command

if TYPE_CHECKING:
    from lakeward.lake.table import Table

_SHOWN_AT_ONCE: Final = 1000
_WRITTEN_AT_ONCE: Final = 10_000
"""The maximal number of rows in memory when rows are written to a pipe or a file."""
GuardOption = Annotated[
    bool,
    typer.Option("--guard/--open", help="Keep out writers that do not go through the lake."),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, rich_help_panel="Tables")(create)
    command(app, rich_help_panel="Tables")(adopt)
    command(app, rich_help_panel="Tables")(show)
    command(app, rich_help_panel="Tables")(read)


def create(
    cli: Cli,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="`name` or `namespace.name`.")],
    columns: Annotated[
        str | None,
        typer.Argument(
            metavar="COLUMNS",
            help="As `id int64 not null, amount double`; nothing with --like.",
            show_default=False,
        ),
    ] = None,
    like: Annotated[
        str | None,
        typer.Option("--like", metavar="FILE", help="Take the columns of a file; no rows."),
    ] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Leave a table that is there as it is.")
    ] = False,
    format_: Annotated[
        str, typer.Option("--format", metavar="delta|iceberg", help="The table's format.")
    ] = "delta",
    partition_by: Annotated[
        list[str] | None,
        typer.Option(
            "--partition-by", metavar="COLUMN", help="Or as `day(ts)`. Repeat it for several."
        ),
    ] = None,
    check: Annotated[
        list[str] | None,
        typer.Option("--check", metavar="NAME=EXPRESSION", help="What every row must satisfy."),
    ] = None,
    property_: Annotated[
        list[str] | None,
        typer.Option(
            "--property", metavar="KEY=VALUE", help="A table property, as the format names it."
        ),
    ] = None,
    comment: Annotated[str | None, typer.Option("--comment", help="For people.")] = None,
    guard: GuardOption = True,
) -> None:
    """Create an empty table."""
    from lakeward.errors import InvalidInput
    from lakeward.model.columns import parse_columns

    if (columns is None) == (like is None):
        what = "A new table needs its columns, either as text or by --like."
        hint = f"Write lakeward create {table} 'id int64, name string', or give --like FILE."
        raise InvalidInput(what, hint=hint)
    schema = None if columns is None else parse_columns(columns)
    with cli.lake() as lake:
        made = lake.create(
            table,
            schema,
            like=like,
            if_not_exists=if_not_exists,
            format=format_,
            partition_by=partition_by or (),
            constraints=_pairs("--check", check),
            properties=_pairs("--property", property_),
            comment=comment,
            guard=guard,
        )
        facts = {
            "table": made.name,
            "format": made.format,
            "version": made.version,
            "location": made.location,
        }
    done = "is" if if_not_exists else "is made"
    cli.say(f"Table {made.name} {done} at {facts['location']}.", facts)


def adopt(
    cli: Cli,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="What the lake shall call it.")],
    location: Annotated[
        str | None,
        typer.Argument(
            metavar="LOCATION",
            help="The table's directory, or an Iceberg metadata file; with --catalog the table's "
            "name there; nothing for a table that others made in the lake's Iceberg catalog.",
            show_default=False,
        ),
    ] = None,
    guard: GuardOption = True,
    drift: Annotated[
        str,
        typer.Option(
            "--drift",
            metavar="adopt|refuse",
            help="On a table that others can write: what to do about commits they make later.",
        ),
    ] = "adopt",
    take_over: Annotated[
        bool,
        typer.Option(
            "--take-over", help="Take a table of another lake, because that lake is gone."
        ),
    ] = False,
    format_: Annotated[
        str | None,
        typer.Option("--format", metavar="delta|iceberg", help="Where both are at the location."),
    ] = None,
    catalog: Annotated[
        list[str] | None,
        typer.Option(
            "--catalog",
            metavar="KEY=VALUE",
            help="A property of the Iceberg catalog that has the table, as pyiceberg takes it: "
            "type=sql, uri=…",
        ),
    ] = None,
) -> None:
    """Adopt an existing Delta or Iceberg table, with its history; no file is moved."""
    from lakeward.model.file import is_full

    if catalog and location is None:
        raise typer.BadParameter("--catalog needs the table's name there.")  # noqa: EM101
    own = "lakeward" if location is None else None
    place = table if location is None else location
    with cli.lake() as lake, cli.output.working(f"Adopting {table}") as advance:
        made = lake.adopt(
            table,
            place if catalog or own or is_full(place) else absolute(Path(place)),
            guard=guard,
            drift=drift,
            take_over=take_over,
            format=format_,
            catalog=_pairs("--catalog", catalog) if catalog else own,
            progress=advance,
        )
        versions = made.history()
        totals = made.totals()
        facts = {
            "table": made.name,
            "version": made.version,
            "first_version": versions[-1].version,
            "versions": len(versions),
            "files": totals.files,
            "rows": totals.rows,
            "guarded": made.guarded,
            "format": made.format,
            "location": made.location,
        }
        writers = _writers(made)
    counts = f"{facts['versions']} versions and {facts['files']} files"
    cli.say(f"Table {table} is adopted with {counts}, {writers}.", facts)


def _writers(made: Table) -> str:
    if made.metadata_location is not None:
        return "open to other writers through the lake's catalog"
    return "guarded" if made.guarded else "open to other writers"


def show(
    cli: Cli,
    table: TableArgument,
    version: VersionOption = None,
    timestamp: TimestampOption = None,
    tag: TagOption = None,
    transaction: TransactionOption = None,
) -> None:
    """Show a table: its columns, checks, properties and size."""
    from lakeward.cli.views import tables as text

    with cli.lake() as lake:
        source = lake.table(table).at(
            version=version, timestamp=timestamp, tag=tag, transaction=transaction
        )
        found = source.details()
    cli.answer(found, text.table(found))


def read(
    cli: Cli,
    table: TableArgument,
    version: VersionOption = None,
    timestamp: TimestampOption = None,
    tag: TagOption = None,
    transaction: TransactionOption = None,
    where: Annotated[
        str | None, typer.Option("--where", metavar="SQL", help="Rows for which this is true.")
    ] = None,
    param: ParamOption = None,
    columns: Annotated[
        list[str] | None,
        typer.Option("--columns", metavar="A,B,…", help="These columns, in this order."),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            min=0,
            metavar="N",
            help="At most so many rows. 20 on a terminal and with --json, else all.",
            show_default=False,
        ),
    ] = None,
    offset: Annotated[int, typer.Option("--offset", min=0, help="Leave out so many rows.")] = 0,
    csv: Annotated[bool, typer.Option("--csv", help="Comma-separated values.")] = False,
    as_table: Annotated[
        bool, typer.Option("--table", help="A table, as on a terminal, in a pipe too.")
    ] = False,
) -> None:
    r"""Read rows, now or as of a version, a time, a tag or a transaction.

    On a terminal they are shown as a table. In a pipe or a file each row is a line with tabs
    between the values, after a line with the names: a tab, a line break and a backslash inside a
    value are `\t`, `\n` and `\\`, and null is `\N`. Rows are written as they are read.
    """
    if csv and (as_table or cli.json):
        raise typer.BadParameter("--csv cannot be combined with --table or --json.")  # noqa: EM101
    from lakeward.model.parameter_values import of_texts

    for_people = as_table or (not csv and sys.stdout.isatty())
    if limit is None and (for_people or cli.json):
        limit = 20
    with cli.lake() as lake:
        snapshot = lake.table(table).at(
            version=version, timestamp=timestamp, tag=tag, transaction=transaction
        )
        chosen = _columns(columns, snapshot.schema.names)
        pages = snapshot.pages(
            columns=chosen,
            where=where,
            params=of_texts(param),
            offset=offset,
            limit=limit,
            size=_SHOWN_AT_ONCE if for_people else _WRITTEN_AT_ONCE,
        )

        def total() -> int | None:
            rows = snapshot.details().rows
            if where is not None or rows is None:
                return None
            left = max(0, rows - offset)
            return left if limit is None else min(left, limit)

        with cli.output.reading(f"Reading {table}", pages, total) as found:
            if cli.json or not for_people:
                cli.output.rows(found, csv=csv)
                return
            from lakeward.cli.views import tables as text

            for page in found:
                is_last = page.offset + page.data.num_rows == offset + (limit or 0)
                cli.answer(page, text.page(page, is_last=is_last))


def _columns(given: list[str] | None, known: list[str]) -> list[str] | None:
    """Return the column names; a text that is not itself a column may hold several, with commas."""
    if not given:
        return None
    names: list[str] = []
    for text in given:
        names += [text] if text in known else [part.strip() for part in text.split(",")]
    return names


def _pairs(option: str, given: list[str] | None) -> dict[str, str]:
    from lakeward.errors import InvalidInput

    out: dict[str, str] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals or not name.strip() or not value.strip():
            # Properties of a catalog may be secret.
            given_as = f"A value of {option}" if option == "--catalog" else f"{option} {text!r}"
            what = f"{given_as} has no name, or no value."
            example = "'positive=amount > 0'" if option == "--check" else "name=value"
            raise InvalidInput(what, hint=f"Write {option} {example}.")
        out[name.strip()] = value.strip()
    return out
