"""Output as text for people: tables and colours on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import stat
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC
from typing import TYPE_CHECKING, Final, TextIO

from rich.console import Console
from rich.text import Text

from lakeward.cli.output import words
from lakeward.cli.output.base import Advance, Failure, Output, Part, View, show_nothing
from lakeward.cli.output.words import printable

if TYPE_CHECKING:
    from lakeward.lake.records import Page

PATIENCE_SECONDS: Final = 1.0
"""How long work may take before a progress bar appears."""
_UNBROKEN: Final = 10_000
"""The width of a line in a pipe, so that lines are not broken for programs."""


class TextOutput(Output):
    """Output for people: no colours with `NO_COLOR` or in a pipe, where lines are not broken."""

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
        """Write rows as lines of plain values."""
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
        """Print the warning on standard error."""
        self._print_error(f"warning: {text}", words.WARNING, head="warning:")

    def note(self, text: str) -> None:
        """Print the note on standard error."""
        self._print_error(text, "dim")

    @contextmanager
    def working(self, what: str) -> Generator[Advance]:
        """Show a progress bar on standard error after a second, only on a terminal.

        Loops in the block that count their work advance it, without access to the bar.
        """
        if not self._err.is_terminal:
            yield show_nothing
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

    @contextmanager
    def reading(
        self, what: str, parts: Iterable[Part], total: Callable[[], int | None] = lambda: None
    ) -> Generator[Iterator[Part]]:
        """Return the parts; the bar counts rows that go to a file, and never mixes with others."""
        if not self._err.is_terminal:
            yield iter(parts)
        elif _is_file(sys.stdout):
            with self.working(what) as advance:
                yield _counted(parts, advance, total())
        else:
            yield self._awaited(what, iter(parts))

    def _awaited(self, what: str, parts: Iterator[Part]) -> Iterator[Part]:
        """Yield the parts, with a bar while the next one takes more than a second."""
        while True:
            with self.working(what):
                part = next(parts, None)
            if part is None:
                return
            yield part

    def _print_error(self, text: str, style: str, *, head: str = "") -> None:
        line = Text(printable(self.mask(text), lines=True))
        if head:
            line.stylize(style, 0, len(head))
        else:
            line.stylize(style)
        self._err.print(line)


class PipedConsole(Console):
    """A console of rich that leaves it to the program how to end when a pipe is closed."""

    def on_broken_pipe(self) -> None:
        """Raise, so that `program` ends the command; rich would end the process."""
        raise BrokenPipeError


def _counted(parts: Iterable[Part], advance: Advance, total: int | None) -> Iterator[Part]:
    done = 0
    advance(done, total)
    for part in parts:
        yield part
        done += part.num_rows if hasattr(part, "num_rows") else part.data.num_rows
        advance(done, total)


def _is_file(stream: TextIO) -> bool:
    """Whether a stream is written to a file, not to a terminal or into a pipe."""
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):
        return False


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    on_terminal = stream.isatty() or "COLUMNS" in os.environ
    return PipedConsole(
        file=stream,
        width=None if on_terminal else _UNBROKEN,
        highlight=False,
        markup=False,
        emoji=False,
    )
