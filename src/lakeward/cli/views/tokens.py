"""Access tokens of the service, without their secrets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from lakeward.cli.output import words

if TYPE_CHECKING:
    from lakeward.lake.records import Token


def tokens(found: Sequence[Token]) -> Iterator[RenderableType]:
    """All tokens, a line to each."""
    if not found:
        yield Text("The lake has no tokens.")
        return
    header = ("id", "name", "role", "tables", "created", "expires", "state")
    rows = (
        (
            t.token_id,
            t.name,
            t.role.value,
            ", ".join(t.tables),
            words.moment(t.created),
            "never" if t.expires is None else words.moment(t.expires),
            _state(t),
        )
        for t in found
    )
    yield words.grid(header, rows)


def _state(token: Token) -> str:
    if token.revoked is not None:
        return "revoked"
    return "valid" if token.valid else "expired"
