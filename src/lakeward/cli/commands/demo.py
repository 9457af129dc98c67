"""`demo`: a lake shown end to end, every step checked."""

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
) -> None:
    """Show a lake end to end: transactions, conflicts, crashes, time travel, other readers.

    Everything is real and checked; ends with code 13 when a check fails.
    """
    with _place(into) as directory, cli.warnings():
        from lakeward.cli.demo import steps, story
        from lakeward.cli.views.demo import DemoView

        scenes = story.play(story.Stage(directory), steps.STEPS)
        view = DemoView(directory, scenes, kept=into is not None)
        cli.show(view)
    if not view.ok:
        raise typer.Exit(exits.DEMO_FAILED)


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
