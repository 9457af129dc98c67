"""The progress bar: how much is done, how fast, and how long the rest takes."""

from __future__ import annotations

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from lakeward.cli.output import words


def bar(console: Console) -> Progress:
    """A bar that disappears when the work is done."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        _Done(),
        _Rate(),
        TimeElapsedColumn(),
        _Remaining(compact=True),
        console=console,
        transient=True,
    )


class _Done(ProgressColumn):
    """`1,000/2,000`, or `1,000` where the total is unknown; nothing where nothing is counted."""

    def render(self, task: Task) -> Text:
        if task.total is None and not task.completed:
            return Text("")
        total = "" if task.total is None else f"/{words.number(int(task.total))}"
        return Text(f"{words.number(int(task.completed))}{total}")


class _Rate(ProgressColumn):
    """How much is done in a second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        if not speed:
            return Text("")
        return Text(f"{speed:,.0f}/s" if speed >= 10 else f"{speed:.1f}/s")


class _Remaining(TimeRemainingColumn):
    """How long the rest takes, where the total is known."""

    def render(self, task: Task) -> Text:
        if task.total is None or task.time_remaining is None:
            return Text("")
        return Text.assemble("about ", super().render(task), " left")
