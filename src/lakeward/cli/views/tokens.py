"""Access tokens without their secrets, and members of an OpenID provider, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from lakeward.cli.output import words

if TYPE_CHECKING:
    from lakeward.lake.records import Member, Token


def tokens(found: Sequence[Token]) -> Iterator[RenderableType]:
    """Show all tokens, one line per token."""
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


def members(found: Sequence[Member]) -> Iterator[RenderableType]:
    """Show the roles of users and groups of an OpenID provider, one line per role."""
    if not found:
        yield Text("No user and no group of an OpenID provider has a role.")
        return
    rows = ((m.name, m.role.value, m.tables, m.actor, words.moment(m.created)) for m in found)
    yield words.grid(("name", "role", "tables", "given by", "since"), rows)


def _state(token: Token) -> str:
    if token.revoked is not None:
        return "revoked"
    return "valid" if token.valid else "expired"
