"""What a command answers with, and the two forms it can take.

An answer is a record of the lake, whose JSON form is `lakeward.model.records.to_json`, and text
that is made of it. An `Output` prints one of the two on standard output: text for people, or
exactly one JSON object for programs. Progress, warnings and, in text, errors go to standard error.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakeward.model.masking import Mask
from lakeward.model.records import to_json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from lakeward.lake.records import Page

Advance = Callable[[int, int | None], None]
"""Called with how much is done, and of how much where that is known."""


class View(ABC):
    """The answer of a command."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The answer as one JSON object."""

    @abstractmethod
    def to_text(self) -> Iterator[RenderableType]:
        """The answer for people, piece by piece."""


@dataclass(frozen=True, slots=True)
class Answer(View):
    """A record, or several by name, with the text that people get of it."""

    record: Any
    text: Iterable[RenderableType]

    def to_json(self) -> dict[str, Any]:
        """The record's JSON form."""
        found: dict[str, Any] = to_json(self.record)
        return found

    def to_text(self) -> Iterator[RenderableType]:
        """The text, made when it is asked for."""
        yield from self.text


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as it is printed; `usage` says how the command is called, after a wrong call."""

    type: str
    message: str
    hint: str | None
    facts: dict[str, Any]
    usage: str | None = None


class Output(ABC):
    """Where answers go."""

    def __init__(self) -> None:
        self.mask = Mask()

    @abstractmethod
    def show(self, view: View) -> None:
        """Print the answer."""

    @abstractmethod
    def rows(self, pages: Iterator[Page], *, csv: bool) -> None:
        """Write the rows of pages as they come: as lines or CSV, or as one JSON object."""

    @abstractmethod
    def fail(self, failure: Failure) -> None:
        """Print an error."""

    @abstractmethod
    def warn(self, text: str) -> None:
        """Print a warning: something went wrong, and the command did its work."""

    @abstractmethod
    def note(self, text: str) -> None:
        """Print something for people beside the answer; JSON output leaves it out."""

    @abstractmethod
    def working(self, what: str) -> AbstractContextManager[Advance]:
        """A progress bar while something takes more than a second."""
