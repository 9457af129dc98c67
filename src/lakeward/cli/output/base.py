"""The answer of a command, and its two forms.

An answer is a record of the lake, whose JSON form is `lakeward.model.records.to_json`, and text
made from it. An `Output` prints one of the two on standard output: text for people, or exactly one
JSON object for programs. Progress, warnings and, in text, errors go to standard error.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from lakeward.model.masking import Mask
from lakeward.model.records import to_json

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import RenderableType

    from lakeward.lake.records import Page, QueryPage

Part = TypeVar("Part", "Page", "QueryPage", "pa.RecordBatch")
"""Some of the rows that a command prints."""
Advance = Callable[[int, int | None], None]
"""A function called with the amount done, and the total amount or None if it is unknown."""


def show_nothing(done: int, total: int | None) -> None:
    """Do nothing: no progress bar is shown."""


class View(ABC):
    """The answer of a command."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the answer as one JSON object."""

    @abstractmethod
    def to_text(self) -> Iterator[RenderableType]:
        """Yield the answer for people, in pieces."""


@dataclass(frozen=True, slots=True)
class Answer(View):
    """A record, or several by name, with the text that people are shown."""

    record: Any
    text: Iterable[RenderableType]

    def to_json(self) -> dict[str, Any]:
        """Return the record's JSON form."""
        found: dict[str, Any] = to_json(self.record)
        return found

    def to_text(self) -> Iterator[RenderableType]:
        """Yield the text; it is made only when it is printed."""
        yield from self.text


@dataclass(frozen=True, slots=True)
class Failure:
    """An error to be printed; `usage` shows how to call the command, after a wrong call."""

    type: str
    message: str
    hint: str | None
    facts: dict[str, Any]
    usage: str | None = None


class Output(ABC):
    """Prints answers, errors, warnings and progress, in one form."""

    def __init__(self) -> None:
        self.mask = Mask()

    @abstractmethod
    def show(self, view: View) -> None:
        """Print the answer."""

    @abstractmethod
    def rows(self, pages: Iterator[Page], *, csv: bool) -> None:
        """Write the rows of pages as they are read: as lines or CSV, or as one JSON object."""

    @abstractmethod
    def fail(self, failure: Failure) -> None:
        """Print an error."""

    @abstractmethod
    def warn(self, text: str) -> None:
        """Print a warning: the command succeeded, but something went wrong."""

    @abstractmethod
    def note(self, text: str) -> None:
        """Print something for people beside the answer; JSON output leaves it out."""

    @abstractmethod
    def working(self, what: str) -> AbstractContextManager[Advance]:
        """Show a progress bar while a block takes more than a second."""

    @abstractmethod
    def reading(
        self, what: str, parts: Iterable[Part], total: Callable[[], int | None] = lambda: None
    ) -> AbstractContextManager[Iterator[Part]]:
        """Return the parts of rows that the block prints, with a progress bar on a terminal.

        If the rows go to a file, the bar counts them to the end. Otherwise the bar is shown only
        while the next part takes more than a second, and never while rows are printed.

        Args:
            what: What the bar says.
            parts: Pages or batches of rows.
            total: Returns the number of all rows, or None if it is unknown.
        """
