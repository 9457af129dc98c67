"""Branches of tables with their directories, and clones.

A branch belongs to a transaction and ends with it, or has a name and stays until it is published or
dropped. While the row of a branch exists, its base version must be kept.
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
_OF_OWNER = Statement(
    f"""SELECT {_COLUMNS} FROM lakeward_branch b WHERE b.owner = :owner AND b.name IS NOT NULL
    ORDER BY b.table_id"""  # noqa: S608  our names
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
# A clone inherits the sources of its source, which are older tables.
_SOURCE = Statement("SELECT max(source_id) FROM lakeward_clone WHERE table_id = :table_id")
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
    """The branch's directory, relative to the table's location."""
    owner: str
    """The id of the branch's transaction, or the id that all tables of a named branch share."""
    name: str | None
    """The name of a named branch; None for the branch of a transaction."""
    base_version: int
    actor: str
    created_ms: int


def insert(session: Session, new: LoggedBranch) -> bool:
    """Insert a branch; return False if its directory or its name is already used in this table."""
    row: dict[str, Any] = {name: getattr(new, name) for name in branch.columns}
    return session.run(_INSERT, row) == 1


def delete(session: Session, table_id: int, directory: str) -> None:
    """Delete a branch's row, after its directory was deleted."""
    session.run(_DELETE, {"table_id": table_id, "directory": directory})


def ended(session: Session) -> list[LoggedBranch]:
    """Return branches whose transaction has ended, and named branches that were published."""
    return [LoggedBranch(*row) for row in session.rows(_ENDED)]


def live_directories(session: Session, table_id: int) -> set[str]:
    """Return the directories of a table's branches that are still in use."""
    return {row[0] for row in session.rows(_LIVE, {"table_id": table_id})}


def named(session: Session, name: str | None = None) -> list[LoggedBranch]:
    """Return the branches of a name, one per table; without a name all that are not published."""
    rows = session.rows(_NAMED) if name is None else session.rows(_OF_NAME, {"name": name})
    return [LoggedBranch(*row) for row in rows]


def of_owner(session: Session, owner: str) -> list[LoggedBranch]:
    """Return the rows of the named branch that has this id; none if it was dropped."""
    return [LoggedBranch(*row) for row in session.rows(_OF_OWNER, {"owner": owner})]


def rebase(session: Session, table_id: int, directory: str, version: int) -> None:
    """Set the base version of a new branch, in a directory, of a table."""
    session.run(_REBASE, {"id": table_id, "place": directory, "version": version})


def unname(session: Session, owner: str) -> None:
    """End a named branch, so that its directories are cleaned up."""
    session.run(_UNNAME, {"id": owner})


def held_versions(session: Session, table_id: int) -> set[int]:
    """Return the versions of a table whose files branches and clones use; vacuum keeps them."""
    return {row[0] for row in session.rows(_HELD, {"table_id": table_id})}


def insert_clone(session: Session, table_id: int, source_id: int, source_version: int) -> None:
    """Record that a clone uses files of a version of its source, and of the source's sources."""
    row = {"table_id": table_id, "source_id": source_id, "source_version": source_version}
    session.run(_INSERT_CLONE, row)
    session.run(_INHERIT, {"table_id": table_id, "source_id": source_id})


def clone_source(session: Session, table_id: int) -> int | None:
    """Return the id of the table that a table was cloned from; None if it is no clone."""
    found: int | None = session.row(_SOURCE, {"table_id": table_id})[0]
    return found


def delete_clone(session: Session, table_id: int) -> None:
    """Delete the record of a clone's sources, when the clone's own files are deleted."""
    session.run(_DELETE_CLONE, {"table_id": table_id})


def clones(session: Session) -> list[tuple[int, str]]:
    """Return the tables created as clones, oldest first: table id, info of the commit as JSON."""
    return [(table_id, info) for table_id, info in session.rows(_CLONES)]
