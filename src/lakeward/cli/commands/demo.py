"""`demo`: shows a lake end to end, by the package `lakeward_demo` of `examples/demo`."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from lakeward.cli import exits
from lakeward.cli.context import Cli, absolute
from lakeward.cli.program import command


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, rich_help_panel="Lake")(demo)


def demo(
    cli: Cli,
    into: Annotated[
        Path | None,
        typer.Option(
            "--into", metavar="DIR", help="Make the lake here, in a new directory, and keep it."
        ),
    ] = None,
    scale: Annotated[
        float, typer.Option("--scale", min=0.01, help="1 is some 25,000 order rows a batch.")
    ] = 1.0,
    master: Annotated[
        str | None,
        typer.Option("--master", metavar="URL", help="Spark's master; this machine unless given."),
    ] = None,
    embedded: Annotated[
        bool, typer.Option("--embedded", help="Without Spark: a shop's sales, in seconds.")
    ] = False,
    serve: Annotated[
        bool, typer.Option("--serve", help="Then serve the lake, until Ctrl-C: look at it.")
    ] = False,
) -> None:
    """Show a lake end to end: a pipeline on Spark, bad data, a crash, time travel, other readers.

    An order stream becomes Delta and Iceberg tables, batch by batch, each in one transaction.
    Everything is real and checked; ends with code 13 when a check fails.
    """
    try:
        from lakeward_demo import opened
    except ModuleNotFoundError as error:
        from lakeward.errors import MissingExtra

        what = "The demo is not installed: there is no package lakeward_demo."
        hint = "In a clone, run `make setup`; else install the wheel of Lakeward again."
        raise MissingExtra(what, hint=hint) from error

    with _place(into) as directory, cli.warnings():
        view = opened(
            directory, embedded=embedded, scale=scale, master=master, kept=into is not None
        )
        cli.show(view)
        if serve and view.ok:
            _serve(cli, view.lake)
    if not view.ok:
        raise typer.Exit(exits.DEMO_FAILED)


def _serve(cli: Cli, directory: Path) -> None:
    import lakeward as lw
    from lakeward.web.serving import serve
    from lakeward.web.settings import Settings

    with lw.open(directory) as lake:
        serve(
            lake,
            str(directory),
            Settings(port=0),
            started=lambda address: cli.say(f"Look at it at {address}", {"address": address}),
        )


@contextmanager
def _place(into: Path | None) -> Generator[Path]:
    from lakeward.errors import AlreadyExists

    if into is None:
        with tempfile.TemporaryDirectory(prefix="lakeward-demo-") as scratch:
            yield Path(scratch) / "lake"
        return
    directory = absolute(into)
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        what = f"{directory} is there already, and not empty."
        raise AlreadyExists(what, hint="Give a new directory to --into.", path=str(directory))
    yield directory
