"""The progress bar: amount done, rate, and remaining time."""

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
    """Return a progress bar that disappears when the work is done."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        _Done(),
        _Rate(),
        _Elapsed(),
        _Remaining(compact=True),
        console=console,
        transient=True,
        # Otherwise rows for standard output would be printed above the bar, on standard error.
        redirect_stdout=False,
    )


class _Done(ProgressColumn):
    """`1,000/2,000`, or `1,000` if the total is unknown; empty if nothing is counted."""

    def render(self, task: Task) -> Text:
        if task.total is None and not task.completed:
            return Text("")
        total = "" if task.total is None else f"/{words.number(int(task.total))}"
        return Text(f"{words.number(int(task.completed))}{total}")


class _Rate(ProgressColumn):
    """The amount done per second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        if not speed:
            return Text("")
        return Text(f"{speed:,.0f}/s" if speed >= 10 else f"{speed:.1f}/s")


class _Elapsed(TimeElapsedColumn):
    """The time so far, without the yellow of rich, which light backgrounds hide."""

    def render(self, task: Task) -> Text:
        return Text(super().render(task).plain)


class _Remaining(TimeRemainingColumn):
    """The estimated remaining time, if the total is known."""

    def render(self, task: Task) -> Text:
        if task.total is None or task.time_remaining is None:
            return Text("")
        return Text(f"about {super().render(task).plain} left")
