"""Output as one JSON object on standard output, whatever happens."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import orjson

from lakeward.cli.output.base import Advance, Failure, Output, Part, View, show_nothing
from lakeward.model.records import to_json

if TYPE_CHECKING:
    from lakeward.lake.records import Page


class JsonOutput(Output):
    """Output for programs. Warnings become a list in the object."""

    def __init__(self) -> None:
        super().__init__()
        self._warnings: list[str] = []

    def show(self, view: View) -> None:
        """Print the answer."""
        self._print(view.to_json())

    def rows(self, pages: Iterator[Page], *, csv: bool) -> None:  # noqa: ARG002  always JSON
        """Write one object with the rows of all pages."""
        from lakeward.cli.output.rows import write_json

        write_json(pages, self._warnings)

    def fail(self, failure: Failure) -> None:
        """Print `{"error": …}`."""
        error = {
            "type": failure.type,
            "message": failure.message,
            "hint": failure.hint,
            "facts": failure.facts,
        }
        self._print({"error": self.mask.deeply(to_json(error))})

    def warn(self, text: str) -> None:
        """Add the warning to the object that is printed later."""
        self._warnings.append(self.mask(text))

    def note(self, text: str) -> None:
        """Print nothing: notes are for people."""

    @contextmanager
    def working(self, what: str) -> Generator[Advance]:  # noqa: ARG002  nothing is shown
        """Show no progress."""
        yield show_nothing

    @contextmanager
    def reading(
        self,
        what: str,  # noqa: ARG002  nothing is shown
        parts: Iterable[Part],
        total: Callable[[], int | None] = lambda: None,  # noqa: ARG002  nothing is shown
    ) -> Generator[Iterator[Part]]:
        """Return the parts; show no progress."""
        yield iter(parts)

    def _print(self, body: dict[str, Any]) -> None:
        if self._warnings:
            body = {**body, "warnings": self._warnings}
        indent = orjson.OPT_INDENT_2 if sys.stdout.isatty() else 0
        sys.stdout.write(orjson.dumps(to_json(body), option=indent).decode() + "\n")
        sys.stdout.flush()
