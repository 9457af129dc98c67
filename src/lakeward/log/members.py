"""Roles of an OpenID provider's users and groups, each for the tables of a pattern."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from lakeward.log.database import Session
from lakeward.log.statement import Statement, insertion
from lakeward.log.tables import member
from lakeward.model.roles import Role

_COLUMNS = ", ".join(member.columns)
_INSERT = insertion(
    member,
    """ON CONFLICT (name, tables) DO UPDATE SET role = excluded.role, actor = excluded.actor,
    created_ms = excluded.created_ms""",
)
_ALL = Statement(f"SELECT {_COLUMNS} FROM lakeward_member ORDER BY name, tables")  # noqa: S608  our names
_DELETE = Statement("DELETE FROM lakeward_member WHERE name = :name")


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A role of a member for the tables of a pattern.

    Attributes:
        name: A user or a group, as `model.members` names them.
        tables: The pattern.
        actor: Who gave the role.
    """

    name: str
    role: Role
    tables: str
    actor: str
    created_ms: int


def insert(session: Session, new: MemberRow) -> None:
    """Insert a role, or replace the one that the member has for the same pattern."""
    session.run(_INSERT, {**asdict(new), "role": new.role.value})


def every(session: Session) -> list[MemberRow]:
    """Return all roles of members, ordered by name and pattern."""
    return [MemberRow(name, Role(role), *rest) for name, role, *rest in session.rows(_ALL)]


def delete(session: Session, name: str) -> bool:
    """Delete all roles of a member; return whether there were any."""
    return session.run(_DELETE, {"name": name}) > 0
