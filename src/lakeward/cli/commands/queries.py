"""`lakeward sql`: runs one statement, or opens a prompt for statements."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from lakeward.cli.arguments import ParamOption
from lakeward.cli.context import Cli
from lakeward.cli.program import command

if TYPE_CHECKING:
    from lakeward.lake.lake import Lake

_AT_ONCE: Final = 10_000
_SHOWN: Final = 1000


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, rich_help_panel="Tables")(sql)


def sql(
    cli: Cli,
    statement: Annotated[
        str | None,
        typer.Argument(
            metavar="STATEMENT",
            help="A query, or a change: INSERT, UPDATE, DELETE, MERGE, ALTER, CREATE, DROP. "
            "Without it, it is read from standard input, on a terminal at a prompt.",
            show_default=False,
        ),
    ] = None,
    param: ParamOption = None,
    engine: Annotated[
        str, typer.Option("--engine", metavar="datafusion|duckdb", help="What runs queries.")
    ] = "datafusion",
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=0, metavar="N", help="Show at most so many rows."),
    ] = None,
    message: Annotated[
        str | None, typer.Option("--message", "-m", help="Why; kept with the commit of a change.")
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Comma-separated values.")] = False,
    as_table: Annotated[
        bool, typer.Option("--table", help="A table, as on a terminal, in a pipe too.")
    ] = False,
) -> None:
    r"""Run SQL over the tables of the lake, of both formats, at one consistent cut.

    On a terminal rows are shown as a table. In a pipe or a file each row is a line with tabs
    between the values, after a line with the names, as `lakeward read` writes them. Each statement
    that changes tables is one transaction.
    """
    if csv and (as_table or cli.json):
        raise typer.BadParameter("--csv cannot be combined with --table or --json.")  # noqa: EM101
    from lakeward.model.parameter_values import of_texts

    params = of_texts(param)
    with cli.lake() as lake:

        def run(text: str) -> None:
            with cli.output.working("Running the statement"):
                answer = _answer(lake, text, params, engine, message)
            _show(cli, answer, limit=limit, csv=csv, as_table=as_table)

        if statement is None and sys.stdin.isatty():
            from lakeward.cli.prompt import Prompt

            Prompt(cli, lake, run).loop()
            return
        run(sys.stdin.read() if statement in (None, "-") else str(statement))


def _answer(
    lake: Lake, text: str, params: dict[str, Any] | None, engine: str, message: str | None
) -> Any:
    """Return the result of a query, or of a statement that changes tables."""
    from lakeward.errors import UnsupportedFeature

    try:
        return lake.sql(text, params, engine=engine)
    except UnsupportedFeature as error:
        if not getattr(error, "changes", False):
            raise
    with lake.transaction(message=message) as tx:
        found = tx.sql(text, params)
    return found if hasattr(found, "pages") else (found, tx.commit())


def _show(cli: Cli, answer: Any, *, limit: int | None, csv: bool, as_table: bool) -> None:
    if isinstance(answer, tuple):
        done, committed = answer
        counts = {n: getattr(done, n) for n in ("inserted", "updated", "deleted")}
        facts = {**counts, "versions": dict(committed.versions)}
        words = [f"{count:,} {name}" for name, count in counts.items() if count]
        at = ", ".join(f"{name} at version {v}" for name, v in committed.versions.items())
        said = f"Rows: {', '.join(words)}" if words else "Done"
        cli.say(f"{said}{f'; {at}' if at else ''}.", facts)
        return
    for_people = as_table or (not csv and not cli.json and sys.stdout.isatty())
    pages = answer.pages(limit=limit, size=_SHOWN if for_people else _AT_ONCE)
    with cli.output.reading("Running the query", pages) as found:
        if cli.json or not for_people:
            cli.output.rows(found, csv=csv)
            return
        from lakeward.cli.views import queries as text

        for page in found:
            cli.answer(page, text.page(page))
