"""What every command needs: the lake that was given, and the output for the answer."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from lakeward.cli.output.base import Answer, Output, View
from lakeward.model.masking import Mask
from lakeward.storage.object_store.settings import environment_secrets

if TYPE_CHECKING:
    from rich.console import RenderableType

    from lakeward.lake.lake import Lake

DEFAULT_LAKE: Final = "./lake"


class Cli:
    """One run of the program.

    Options may be given before or after the command; the last value is used.
    """

    def __init__(self) -> None:
        self.lake_given: str | None = None
        self.warehouse: str | None = None
        self.json = False
        self.utc = False
        self._output: Output | None = None

    def take(self, *, lake: str | None, warehouse: str | None, json: bool, utc: bool) -> None:
        """Store the values of the options that every command has, if given."""
        self.lake_given = lake or self.lake_given
        self.warehouse = warehouse or self.warehouse
        self.json = json or self.json
        self.utc = utc or self.utc

    @property
    def target(self) -> str:
        """The lake's directory or URL."""
        return self.lake_given or os.environ.get("LAKEWARD_LAKE") or DEFAULT_LAKE

    @property
    def place(self) -> str:
        """The warehouse that was given, otherwise the lake's directory or URL."""
        return self.warehouse_given or self.target

    @property
    def output(self) -> Output:
        """The output for answers and errors; created by the first access, to import little."""
        if self._output is None:
            self._output = _output(json=self.json, utc=self.utc)
        self._output.mask = Mask(self.target, *environment_secrets(os.environ))
        return self._output

    def show(self, view: View) -> None:
        """Print the answer."""
        self.output.show(view)

    def answer(self, record: Any, text: Iterable[RenderableType]) -> None:
        """Print a record: as JSON, or as the text that was made from it."""
        self.show(Answer(record, text))

    def say(
        self, sentence: str, facts: Any, then: str | None = None, *, shown: str | None = None
    ) -> None:
        """Print what was done: a sentence for people, with advice below; facts for programs.

        `shown` is printed on a line of its own between them, so that it can be copied.
        """
        from lakeward.cli.output import words

        lines = [words.line(text) for text in (sentence, shown) if text is not None]
        advice = [words.line(then, "dim")] if then else []
        self.answer(facts, [*lines, *advice])

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask whether to continue, unless `yes` is set.

        Raises:
            InvalidInput: Nobody can answer.
            Abort: The answer is no.
        """
        if yes:
            return
        if self.json or not sys.stdin.isatty():
            from lakeward.errors import InvalidInput

            what = f"Nobody can answer: {question} Nothing was changed."
            raise InvalidInput(what, hint="Give --yes to do it without asking.")
        if not typer.confirm(question, err=True):
            raise typer.Abort

    @contextmanager
    def lake(
        self,
        *,
        create: bool = False,
        repair: bool = True,
        target: str | None = None,
        take_over: bool = False,
    ) -> Generator[Lake]:
        """Open the lake, and close it at the end.

        Args:
            create: Create the lake if it is missing.
            repair: Publish commits whose files are missing, and roll back transactions of dead
                processes, as opening a lake does.
            target: Another lake than the one given.
            take_over: Create a new store for a warehouse whose store is lost.

        Raises:
            LakeNotFound: There is no lake, and `create` is not set.
        """
        from lakeward.lake.lake import Lake

        with self.warnings():
            lake = Lake(
                target or self.target,
                warehouse=self.warehouse_given,
                create=create,
                repair=repair,
                take_over=take_over,
            )
            with lake:
                yield lake

    @property
    def warehouse_given(self) -> str | None:
        """The warehouse that the user gave, by option or environment; None without one."""
        return self.warehouse or os.environ.get("LAKEWARD_WAREHOUSE") or None

    @contextmanager
    def warnings(self) -> Generator[None]:
        """Print warnings that the library logs."""
        logger = logging.getLogger("lakeward")
        handler = _WarningPrinter(self.output)
        logger.addHandler(handler)
        propagated, logger.propagate = logger.propagate, False
        try:
            yield
        finally:
            logger.propagate = propagated
            logger.removeHandler(handler)


class _WarningPrinter(logging.Handler):
    def __init__(self, output: Output) -> None:
        super().__init__(logging.WARNING)
        self._output = output

    def emit(self, record: logging.LogRecord) -> None:
        self._output.warn(record.getMessage())


def _output(*, json: bool, utc: bool) -> Output:
    if json:
        from lakeward.cli.output.json_form import JsonOutput

        return JsonOutput()
    from lakeward.cli.output.text_form import TextOutput

    return TextOutput(utc=utc)


def absolute(path: Path) -> Path:
    """Return a path that a user typed as an absolute path."""
    return path.expanduser().absolute()
