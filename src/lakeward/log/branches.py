"""Branches of tables with their directories, and clones.

A branch belongs to a transaction and ends with it, or has a name and stays until it is published or
dropped. While its row exists, the version that it was made from must be kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lakeward.log.database import Session
from lakeward.log.statement import Statement, insertion
from lakeward.log.tables import branch, clone

_COLUMNS = ", ".join(f"b.{name}" for name in branch.columns)
_WITH_STATE = "lakeward_branch b LEFT JOIN lakeward_transaction t ON t.transaction_id = b.owner"
_NOT_PUBLISHED = "(t.state IS NULL OR t.state <> 'ratified')"
_INSERT = insertion(branch)
_DELETE = Statement(
    "DELETE FROM lakeward_branch WHERE table_id = :table_id AND directory = :directory"
)
# A named branch ends when it is published, by a transaction whose id is its owner's.
_ENDED = Statement(
    f"""SELECT {_COLUMNS} FROM {_WITH_STATE} WHERE t.state = 'ratified'
    OR b.name IS NULL AND (t.state IS NULL OR t.state <> 'open')"""  # noqa: S608  our names
)
_LIVE = Statement(
    f"""SELECT b.directory FROM {_WITH_STATE} WHERE b.table_id = :table_id
    AND (t.state = 'open' OR b.name IS NOT NULL AND {_NOT_PUBLISHED})"""  # noqa: S608  our names
)
_NAMED = Statement(
    f"""SELECT {_COLUMNS} FROM {_WITH_STATE} WHERE b.name IS NOT NULL AND {_NOT_PUBLISHED}
    ORDER BY b.name, b.table_id"""  # noqa: S608  our names
)
_OF_NAME = Statement(
    f"SELECT {_COLUMNS} FROM lakeward_branch b WHERE b.name = :name ORDER BY b.table_id"  # noqa: S608  our names
)
_REBASE = Statement(
    """UPDATE lakeward_branch SET base_version = :version
    WHERE table_id = :id AND directory = :place"""
)
_UNNAME = Statement("UPDATE lakeward_branch SET name = NULL WHERE owner = :id")
_HELD = Statement(
    """SELECT base_version FROM lakeward_branch WHERE table_id = :table_id
    UNION SELECT c.source_version FROM lakeward_clone c WHERE c.source_id = :table_id"""
)
_INSERT_CLONE = insertion(clone)
_INHERIT = Statement(
    """INSERT INTO lakeward_clone (table_id, source_id, source_version)
    SELECT :table_id, source_id, source_version FROM lakeward_clone WHERE table_id = :source_id
    ON CONFLICT DO NOTHING"""
)
_DELETE_CLONE = Statement("DELETE FROM lakeward_clone WHERE table_id = :table_id")
_CLONES = Statement(
    """SELECT table_id, info FROM lakeward_commit WHERE operation = 'CLONE'
    ORDER BY timestamp_ms, table_id"""
)


@dataclass(frozen=True, slots=True)
class LoggedBranch:
    """A branch of one table."""

    table_id: int
    directory: str
    """Below the table's location."""
    owner: str
    """The transaction's id, or the id that all tables of a named branch share."""
    name: str | None
    """None for a transaction's branch."""
    base_version: int
    actor: str
    created_ms: int


def insert(session: Session, new: LoggedBranch) -> bool:
    """Insert a branch; False when its directory, or its name for this table, is taken."""
    row: dict[str, Any] = {name: getattr(new, name) for name in branch.columns}
    return session.run(_INSERT, row) == 1


def delete(session: Session, table_id: int, directory: str) -> None:
    """Delete a branch's row, after its directory was deleted."""
    session.run(_DELETE, {"table_id": table_id, "directory": directory})


def ended(session: Session) -> list[LoggedBranch]:
    """Branches of transactions that ended, and named ones that are published."""
    return [LoggedBranch(*row) for row in session.rows(_ENDED)]


def live_directories(session: Session, table_id: int) -> set[str]:
    """The directories of a table's branches that are in use."""
    return {row[0] for row in session.rows(_LIVE, {"table_id": table_id})}


def named(session: Session, name: str | None = None) -> list[LoggedBranch]:
    """The branches of a name, one for each table; without a name all that are not published."""
    rows = session.rows(_NAMED) if name is None else session.rows(_OF_NAME, {"name": name})
    return [LoggedBranch(*row) for row in rows]


def rebase(session: Session, table_id: int, directory: str, version: int) -> None:
    """Set the base version of a branch that has no changes yet."""
    session.run(_REBASE, {"id": table_id, "place": directory, "version": version})


def unname(session: Session, owner: str) -> None:
    """End a named branch, so that its directories are cleaned up."""
    session.run(_UNNAME, {"id": owner})


def held_versions(session: Session, table_id: int) -> set[int]:
    """Versions of a table whose files branches and clones use, and vacuum must keep."""
    return {row[0] for row in session.rows(_HELD, {"table_id": table_id})}


def insert_clone(session: Session, table_id: int, source_id: int, source_version: int) -> None:
    """Record that a table uses files of a version of another one, and of that one's sources."""
    row = {"table_id": table_id, "source_id": source_id, "source_version": source_version}
    session.run(_INSERT_CLONE, row)
    session.run(_INHERIT, {"table_id": table_id, "source_id": source_id})


def delete_clone(session: Session, table_id: int) -> None:
    """Delete the record of a clone's origin, when the clone's own files are deleted."""
    session.run(_DELETE_CLONE, {"table_id": table_id})


def clones(session: Session) -> list[tuple[int, str]]:
    """The tables that were made as clones, oldest first, each with its commit's info as text."""
    return [(table_id, info) for table_id, info in session.rows(_CLONES)]
