"""Commands on the store: `backup`, `rebuild`, `relocate`, `store export`, `store import`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.cli.context import Cli, absolute
from lakeward.cli.program import command

if TYPE_CHECKING:
    from lakeward.lake.records import StoreCopy

NewFile = Annotated[Path, typer.Argument(metavar="DEST", help="A file that does not exist yet.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, rich_help_panel="Upkeep")(backup)
    command(app, rich_help_panel="Upkeep")(rebuild)
    command(app, rich_help_panel="Upkeep")(relocate)
    store = typer.Typer(help="Move the store from one database to another.")
    command(store, "export")(export_store)
    command(store, "import")(import_store)
    app.add_typer(store, name="store", rich_help_panel="Upkeep")


def backup(cli: Cli, dest: NewFile) -> None:
    """Copy the store while others keep working.

    To restore a SQLite store, replace its file by the copy.
    """
    with cli.lake() as lake, cli.output.working("Copying the store") as advance:
        copy = lake.backup(absolute(dest), progress=advance)
    _print_copy(cli, copy, "The store is copied to")


def export_store(cli: Cli, dest: NewFile) -> None:
    """Export the store, to be imported into another lake, on SQLite or PostgreSQL."""
    with cli.lake() as lake, cli.output.working("Exporting the store") as advance:
        copy = lake.export_store(absolute(dest), progress=advance)
    _print_copy(cli, copy, "The store is exported to")


def import_store(
    cli: Cli,
    source: Annotated[Path, typer.Argument(metavar="SRC", help="What `store export` wrote.")],
) -> None:
    """Import an export into a lake without tables; create the lake if it is missing.

    The lake takes over its warehouse: the store that was exported is refused from then on.
    """
    from lakeward.errors import NotFound

    path = absolute(source)
    if not path.is_file():
        what = f"There is no file {path}."
        raise NotFound(what, hint="Make one with `lakeward store export`.", path=str(path))
    with (
        cli.lake(create=True, take_over=True) as lake,
        cli.output.working("Importing the store") as advance,
    ):
        copy = lake.import_store(path, progress=advance)
        published = lake.publish()
    _print_copy(cli, copy, "The store is imported from", published=sum(published.values()))


def rebuild(cli: Cli) -> None:
    """Rebuild a lost store from the published tables below the lake's directory.

    Commits that were not yet published when the store was lost are lost with it. The new store
    takes over the warehouse: if the lost store is found again, it is refused.
    """
    from lakeward.cli.views import lakes as text
    from lakeward.errors import StoreCorrupt

    _check_something_to_rebuild(cli)
    try:
        with (
            cli.lake(create=True, take_over=True) as lake,
            cli.output.working("Rebuilding the store") as advance,
        ):
            found = lake.rebuild(progress=advance)
    except StoreCorrupt as error:
        hint = "Move the damaged store away first; a new one is made in its place."
        raise StoreCorrupt(error.what, hint=hint, **error.facts) from error
    cli.answer(found, text.rebuilt(found))


def relocate(
    cli: Cli,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Look and count, and change nothing.")
    ] = False,
) -> None:
    """Adapt a lake to the location to which its files were moved or copied.

    Move the files first. `--lake` is the store at its new location, and `--warehouse` that of the
    files, if they are elsewhere. Stop everybody who uses the lake. If the command is interrupted,
    run it again.
    """
    from lakeward.cli.output import words
    from lakeward.lake.moving import relocate as relocate_lake

    with cli.warnings(), cli.output.working("Relocating") as advance:
        found = relocate_lake(
            cli.target, warehouse=cli.warehouse_given, dry_run=dry_run, progress=advance
        )
    done = "would be" if dry_run else "is"
    tables = words.counted(found.tables, "table")
    sentence = (
        f"The lake {done} relocated to {found.new}: {tables},"
        f" {words.counted(found.metadata_files, 'Iceberg file')} written anew,"
        f" {words.counted(found.rows, 'row')} of the log changed."
    )
    cli.say(sentence, found)


def _check_something_to_rebuild(cli: Cli) -> None:
    """Raise `LakeNotFound` if there are no published tables to rebuild a lake from."""
    from lakeward.errors import LakeNotFound
    from lakeward.lake.moving import is_published_below

    found, place = is_published_below(cli.place)
    if not found:
        what = f"There are no published tables below {place}."
        raise LakeNotFound(what, hint="Give the lake's directory with --lake or --warehouse.")


def _print_copy(cli: Cli, copy: StoreCopy, done: str, **more: int) -> None:
    from lakeward.cli.output import words

    total = sum(copy.rows.values())
    sentence = f"{done} {copy.path}: {words.counted(total, 'row')}."
    cli.say(sentence, {"path": copy.path, "rows": copy.rows, **more})
