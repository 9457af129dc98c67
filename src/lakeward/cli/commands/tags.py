"""Commands on tags, which refer to versions: `tag create`, `tag list`, `tag drop`."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeward.cli.arguments import AtOption
from lakeward.cli.context import Cli
from lakeward.cli.program import command

TagArgument = Annotated[str, typer.Argument(metavar="NAME", help="The tag's name.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    tag = typer.Typer(help="Give a name to one cut over all tables, which is kept for it.")
    command(tag, "create")(create)
    command(tag, "list")(list_tags)
    command(tag, "drop")(drop)
    app.add_typer(tag, name="tag", rich_help_panel="History")


def create(
    cli: Cli,
    name: TagArgument,
    at: AtOption = None,
    tables: Annotated[
        list[str] | None,
        typer.Option("--table", metavar="TABLE", help="Only this table; may be given again."),
    ] = None,
    message: Annotated[str | None, typer.Option("--message", "-m", help="Why.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Move a tag that exists.")] = False,
) -> None:
    """Tag one consistent cut over all tables; its versions are kept as long as the tag exists."""
    from lakeward.cli.output import words

    with cli.lake() as lake:
        made = lake.tag(name, at=at, tables=tables or None, message=message, replace=replace)
    count = words.counted(len(made.versions), "table")
    cli.say(f"Tag {made.name} names the versions of {count}.", made)


def list_tags(cli: Cli) -> None:
    """List the tags, ordered by the time of their cuts."""
    from lakeward.cli.views import tags as text

    with cli.lake() as lake:
        found = lake.tags()
    cli.answer({"tags": found}, text.tags(found))


def drop(cli: Cli, name: TagArgument) -> None:
    """Drop a tag; its versions are no longer kept for it."""
    with cli.lake() as lake:
        lake.untag(name)
    cli.say(f"Tag {name} is dropped.", {"tag": name})
