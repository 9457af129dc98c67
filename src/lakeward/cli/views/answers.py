"""Small answers: what was done, in a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from lakeward.cli.output import words
from lakeward.cli.output.base import View


@dataclass(frozen=True, slots=True)
class Done(View):
    """Something was done: a sentence for people, facts for programs."""

    sentence: str
    facts: Mapping[str, Any]
    then: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The facts."""
        return dict(self.facts)

    def to_text(self) -> Iterator[RenderableType]:
        """The sentence, and what to do next."""
        yield Text(words.printable(self.sentence))
        if self.then:
            yield Text(words.printable(self.then), style="dim")


@dataclass(frozen=True, slots=True)
class PublishedView(View):
    """What was owed, and now is published."""

    versions: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        """How many versions of each table."""
        return {"published": dict(self.versions), "total": sum(self.versions.values())}

    def to_text(self) -> Iterator[RenderableType]:
        """The same in words."""
        if not self.versions:
            yield Text("Everything is published; nothing was owed.")
            return
        for name, count in self.versions.items():
            yield Text(words.printable(f"{name}: published {words.counted(count, 'version')}"))
