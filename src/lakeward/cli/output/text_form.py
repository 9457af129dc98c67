"""Text for people: tables and colours on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import UTC
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

from lakeward.cli.output import words
from lakeward.cli.output.base import Advance, Failure, Output, View
from lakeward.cli.output.words import printable

if TYPE_CHECKING:
    from lakeward.lake.records import Page

PATIENCE_SECONDS: Final = 1.0
"""How long something may take before a progress bar appears."""
_UNBROKEN: Final = 10_000
"""The width of a line in a pipe, so that programs get whole lines."""


class TextOutput(Output):
    """Answers for people: no colours with `NO_COLOR` or in a pipe, where lines stay whole too."""

    def __init__(self, *, utc: bool = False) -> None:
        super().__init__()
        self._zone = UTC if utc else None
        self._out = _console(stderr=False)
        self._err = _console(stderr=True)

    def show(self, view: View) -> None:
        """Print the answer."""
        with words.in_zone(self._zone):
            for piece in view.to_text():
                self._out.print(piece)

    def rows(self, pages: Iterator[Page], *, csv: bool) -> None:
        """Write rows as lines, with the values as they are."""
        from lakeward.cli.output.rows import write_csv, write_lines

        (write_csv if csv else write_lines)(pages)

    def fail(self, failure: Failure) -> None:
        """Print what happened and what to do."""
        if failure.usage:
            self._print_error(failure.usage, "dim")
        self._print_error(f"error: {failure.message}", "bold red", head="error:")
        if failure.hint:
            self._print_error(failure.hint, "")

    def warn(self, text: str) -> None:
        """Print it beside the answer."""
        self._print_error(f"warning: {text}", words.WARNING, head="warning:")

    def note(self, text: str) -> None:
        """Print it beside the answer."""
        self._print_error(text, "dim")

    @contextmanager
    def working(self, what: str) -> Generator[Advance]:
        """A bar on standard error, once a second has passed and only on a terminal.

        Loops in the block that count their work move it, without being handed anything.
        """
        if not self._err.is_terminal:
            yield lambda _done, _total: None
            return
        from lakeward.cli.output.progress import bar
        from lakeward.model.progress import reported

        progress = bar(self._err)
        task = progress.add_task(printable(what), total=None)
        patience = threading.Timer(PATIENCE_SECONDS, progress.start)
        patience.daemon = True
        patience.start()

        def advance(done: int, total: int | None) -> None:
            progress.update(task, completed=done, total=total)

        try:
            with reported(advance):
                yield advance
        finally:
            patience.cancel()
            # Wait for a start that is just under way: after `stop` nothing would end it.
            patience.join()
            progress.stop()

    def _print_error(self, text: str, style: str, *, head: str = "") -> None:
        line = Text(printable(self.mask(text), lines=True))
        if head:
            line.stylize(style, 0, len(head))
        else:
            line.stylize(style)
        self._err.print(line)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Raise, so that `program` ends the command; rich would end the process."""
        raise BrokenPipeError


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    on_terminal = stream.isatty() or "COLUMNS" in os.environ
    return _Console(
        file=stream,
        width=None if on_terminal else _UNBROKEN,
        highlight=False,
        markup=False,
        emoji=False,
    )
