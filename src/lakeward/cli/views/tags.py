"""Tags as text: their versions, and why they were created."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from lakeward.cli.output import words

if TYPE_CHECKING:
    from lakeward.lake.records import Tag

_LISTED = 4


def tags(found: Sequence[Tag]) -> Iterator[RenderableType]:
    """Show one line per tag."""
    if not found:
        yield Text("The lake has no tags.")
        return
    rows = ((t.name, words.moment(t.moment), _named(t), t.actor, t.message or "") for t in found)
    yield words.grid(("tag", "moment", "versions", "actor", "message"), rows)


def _named(tag: Tag) -> str:
    shown = [f"{name} {version}" for name, version in tag.versions.items()]
    more = len(shown) - _LISTED
    return ", ".join(shown[:_LISTED]) + (f" and {more} more" if more > 0 else "")
