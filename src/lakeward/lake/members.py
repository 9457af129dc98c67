"""Members of a lake: users and groups of an OpenID provider, and what they may do.

A member is named by a claim of the provider's tokens: `sub:` and the subject, `email:` and a
verified address, or `group:` and a group.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput, NotFound
from lakeward.log import members
from lakeward.log.members import MemberRow
from lakeward.model import arguments
from lakeward.model.clock import to_datetime
from lakeward.model.policy.patterns import EVERY, Pattern
from lakeward.model.roles import Role

_NAME: Final = re.compile(r"(sub|email|group):\S.{0,254}")


@dataclass(frozen=True, slots=True)
class Member:
    """A role of a user or a group, for the tables that a pattern matches.

    Attributes:
        name: `sub:…`, `email:…` or `group:…`.
        role: `reader`, `writer` or `admin`.
        tables: The pattern of the tables for which the member has the role.
        actor: Who gave the role.
        created: When the role was given.
    """

    name: str
    role: Role
    tables: str
    actor: str
    created: datetime


class Members:
    """The part of a lake's interface that manages roles of users of an OpenID provider."""

    _context: LakeContext

    def allow(
        self, name: str, *, role: str = "reader", tables: str | Sequence[str] = EVERY
    ) -> list[Member]:
        """Give users or groups of an OpenID provider a role, for the service.

        Args:
            name: `sub:` and the subject of a user, `email:` and a verified address, or `group:`
                and the name of a group.
            role: `reader`, `writer` or `admin`.
            tables: A pattern of the tables for which they get the role, or several patterns. A
                previous role for the same pattern is replaced.

        Raises:
            InvalidInput: The name, the role or a pattern is wrong. Nothing was changed.
        """
        self._context.database.check_writable()
        if not _NAME.fullmatch(arguments.text(name, "name")):
            what = f"{name!r} names no user and no group of an OpenID provider."
            raise InvalidInput(what, hint="Write sub:…, email:… or group:….")
        chosen = arguments.choice(role, Role, "role")
        given = [tables] if isinstance(tables, str) else arguments.texts(tables, "tables")
        patterns = [Pattern.parse(text).text for text in given]
        if not patterns:
            raise InvalidInput("The role would be for no table.", hint="Give a pattern: gold.*")  # noqa: EM101
        with self._context.database.write() as session:
            now = self._context.database.clock_ms(session)
            rows = [MemberRow(name, chosen, p, self._context.actor, now) for p in patterns]
            for row in rows:
                members.insert(session, row)
        return [_member(row) for row in rows]

    def allowed(self) -> list[Member]:
        """Return the roles of users and groups of an OpenID provider, by name."""
        with self._context.database.read() as session:
            return [_member(row) for row in members.every(session)]

    def disallow(self, name: str) -> None:
        """Remove all roles of a user or a group of an OpenID provider.

        Raises:
            NotFound: The user or group has no role.
        """
        self._context.database.check_writable()
        with self._context.database.write() as session:
            if not members.delete(session, arguments.text(name, "name")):
                what = f"{name} has no role."
                raise NotFound(what, hint="`lakeward token allowed` lists who has one.")

    def roles_of(self, names: Iterable[str]) -> list[Member]:
        """Return the roles of a user, given the names of the user and of the user's groups."""
        wanted = set(names)
        return [member for member in self.allowed() if member.name in wanted]


def _member(row: MemberRow) -> Member:
    return Member(row.name, row.role, row.tables, row.actor, to_datetime(row.created_ms))
