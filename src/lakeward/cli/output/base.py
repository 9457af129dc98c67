"""What a command answers with, and the two forms it can take.

A command makes a `View` of what it found: plain facts that know how to be a JSON object and how to
be text. An `Output` is where it goes: standard output as text for people or as exactly one JSON
object for programs. Progress, warnings and, in text, errors go to standard error.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakeward.cli.masking import Mask

if TYPE_CHECKING:
    from rich.console import RenderableType

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
class Failure:
    """An error as it is told.

    Attributes:
        type: The class of the error.
        message: What happened.
        hint: What to do about it.
        facts: The table, version, transaction … it is about.
        usage: How the command is called, where that was the mistake.
    """

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
    def fail(self, failure: Failure) -> None:
        """Print an error."""

    @abstractmethod
    def warn(self, text: str) -> None:
        """Tell of something that did not keep the command from doing its work."""

    @abstractmethod
    def note(self, text: str) -> None:
        """Tell a person something beside the answer; programs do not hear it."""

    @abstractmethod
    def working(self, what: str) -> AbstractContextManager[Advance]:
        """A progress bar while something takes more than a second."""
