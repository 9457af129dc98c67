"""Tags: names for one cut over tables, whose versions are kept as long as the tag exists.

Tags are inserted and deleted while the heads of their tables are locked, so a holder of a head's
lock sees all versions of that table that tags hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakeward.log.database import Session
from lakeward.log.statement import Statement, insertion
from lakeward.log.tables import tag, tagged

_COLUMNS = ", ".join(tag.columns)
_ALL = Statement(f"SELECT {_COLUMNS} FROM lakeward_tag ORDER BY moment_ms, name")  # noqa: S608  our names
_ONE = Statement(f"SELECT {_COLUMNS} FROM lakeward_tag WHERE name = :name")  # noqa: S608  our names
_MEMBERS = Statement("SELECT name, table_id, version FROM lakeward_tagged ORDER BY table_id")
_MEMBERS_OF = Statement(
    "SELECT name, table_id, version FROM lakeward_tagged WHERE name = :name ORDER BY table_id"
)
_INSERT = insertion(tag)
_INSERT_MEMBER = insertion(tagged, "")
_DELETE = Statement("DELETE FROM lakeward_tag WHERE name = :name")
_DELETE_MEMBERS = Statement("DELETE FROM lakeward_tagged WHERE name = :name")
_HELD = Statement("SELECT DISTINCT version FROM lakeward_tagged WHERE table_id = :table_id")
_VERSION = Statement(
    "SELECT version FROM lakeward_tagged WHERE name = :name AND table_id = :table_id"
)
_NAMES_OF = Statement(
    "SELECT name, version FROM lakeward_tagged WHERE table_id = :table_id ORDER BY version, name"
)


@dataclass(frozen=True, slots=True)
class LoggedTag:
    """A tag.

    Attributes:
        moment_ms: The time of the cut.
        whole: Whether the tag covers all tables that the lake had then.
        actor: Who created the tag.
        message: Why.
        created_ms: When the tag was created.
        versions: The version of each table, by the table's id.
        position: The position of the last transaction in the cut; None for tags of old stores.
    """

    name: str
    moment_ms: int
    whole: bool
    actor: str
    message: str | None
    created_ms: int
    versions: Mapping[int, int] = field(default_factory=dict)
    position: int | None = None


def insert(session: Session, new: LoggedTag) -> bool:
    """Insert a tag; return False if the name exists."""
    row: dict[str, Any] = {name: getattr(new, name) for name in tag.columns}
    if session.run(_INSERT, row | {"whole": int(new.whole)}) != 1:
        return False
    rows = [{"name": new.name, "table_id": t, "version": v} for t, v in new.versions.items()]
    session.many(_INSERT_MEMBER, rows)
    return True


def delete(session: Session, name: str) -> bool:
    """Delete a tag, so that its versions are no longer held; return whether it existed."""
    session.run(_DELETE_MEMBERS, {"name": name})
    return session.run(_DELETE, {"name": name}) == 1


def every(session: Session) -> list[LoggedTag]:
    """Return all tags, ordered by the time of their cuts."""
    members: dict[str, dict[int, int]] = {}
    for name, table_id, version in session.rows(_MEMBERS):
        members.setdefault(name, {})[table_id] = version
    return [_tag(row, members.get(row[0], {})) for row in session.rows(_ALL)]


def find(session: Session, name: str) -> LoggedTag | None:
    """Return the tag of a name, or None."""
    row = session.row(_ONE, {"name": name})
    if row is None:
        return None
    return _tag(row, {t: v for _, t, v in session.rows(_MEMBERS_OF, {"name": name})})


def version_of(session: Session, name: str, table_id: int) -> int | None:
    """Return the version of a table to which a tag refers, or None."""
    row = session.row(_VERSION, {"name": name, "table_id": table_id})
    return row[0] if row else None


def held_versions(session: Session, table_id: int) -> set[int]:
    """Return the versions of a table to which tags refer; their files must be kept."""
    return {row[0] for row in session.rows(_HELD, {"table_id": table_id})}


def names_of(session: Session, table_id: int) -> dict[str, int]:
    """Return the tags of a table by name, each with its version, oldest version first."""
    return dict(session.rows(_NAMES_OF, {"table_id": table_id}))


def _tag(row: Any, versions: Mapping[int, int]) -> LoggedTag:
    name, moment_ms, whole, actor, message, created_ms, position = row
    return LoggedTag(name, moment_ms, bool(whole), actor, message, created_ms, versions, position)
