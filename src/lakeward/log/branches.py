"""Branches of tables: whose directory is whose.

A branch belongs to a transaction, and then ends with it, or it has a name, and then stays until it
is published or dropped. As long as its row is there, the version that it was made from is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam

from lakeward.log.database import Session
from lakeward.log.statement import Statement
from lakeward.log.tables import branch, transaction

_COLUMNS = list(branch.c)
_KEY = (branch.c.table_id == bindparam("table_id"), branch.c.directory == bindparam("directory"))
_INSERT = Statement(
    f"""INSERT INTO lakeward_branch ({", ".join(c.name for c in branch.c)})
    VALUES ({", ".join(f":{c.name}" for c in branch.c)})
    ON CONFLICT DO NOTHING"""  # noqa: S608  column names of our own
)
_DELETE = Statement(sa.delete(branch).where(*_KEY))
# A named branch is over when it is published, by a transaction of its owner's id.
_OVER = sa.or_(
    transaction.c.state == "ratified",
    sa.and_(
        branch.c.name.is_(None),
        sa.or_(transaction.c.state.is_(None), transaction.c.state != "open"),
    ),
)
_WITH_STATE = sa.select(*_COLUMNS).outerjoin(
    transaction, transaction.c.transaction_id == branch.c.owner
)
_NOT_PUBLISHED = sa.or_(transaction.c.state.is_(None), transaction.c.state != "ratified")
_ENDED = Statement(_WITH_STATE.where(_OVER))
_LIVE = Statement(
    sa.select(branch.c.directory)
    .outerjoin(transaction, transaction.c.transaction_id == branch.c.owner)
    .where(
        branch.c.table_id == bindparam("table_id"),
        sa.or_(transaction.c.state == "open", sa.and_(branch.c.name.is_not(None), _NOT_PUBLISHED)),
    )
)
_NAMED = Statement(
    _WITH_STATE.where(branch.c.name.is_not(None), _NOT_PUBLISHED).order_by(
        branch.c.name, branch.c.table_id
    )
)
_OF_NAME = Statement(
    sa.select(*_COLUMNS).where(branch.c.name == bindparam("name")).order_by(branch.c.table_id)
)
_REBASE = Statement(
    sa.update(branch)
    .where(branch.c.table_id == bindparam("id"), branch.c.directory == bindparam("place"))
    .values(base_version=bindparam("version"))
)
_UNNAME = Statement(
    sa.update(branch).where(branch.c.owner == bindparam("id")).values(name=sa.null())
)
_HELD = Statement(
    """SELECT base_version FROM lakeward_branch WHERE table_id = :table_id
    UNION SELECT c.source_version FROM lakeward_clone c
    JOIN lakeward_head h ON h.table_id = c.table_id
    WHERE c.source_id = :table_id AND h.dropped_ms IS NULL"""
)
_INSERT_CLONE = Statement(
    """INSERT INTO lakeward_clone (table_id, source_id, source_version)
    VALUES (:table_id, :source_id, :source_version) ON CONFLICT DO NOTHING"""
)
_INHERIT = Statement(
    """INSERT INTO lakeward_clone (table_id, source_id, source_version)
    SELECT :table_id, source_id, source_version FROM lakeward_clone WHERE table_id = :source_id
    ON CONFLICT DO NOTHING"""
)
_CLONES = Statement(
    """SELECT table_id, info FROM lakeward_commit WHERE operation = 'CLONE'
    ORDER BY timestamp_ms, table_id"""
)


@dataclass(frozen=True, slots=True)
class LoggedBranch:
    """A branch of one table.

    Attributes:
        table_id: The table.
        directory: Of the branch, below the table's location.
        owner: The transaction that it belongs to, or the id that all tables of a name share.
        name: None for a transaction's.
        base_version: The version that it was made from.
        actor: Who made it.
        created_ms: When.
    """

    table_id: int
    directory: str
    owner: str
    name: str | None
    base_version: int
    actor: str
    created_ms: int


def insert(session: Session, new: LoggedBranch) -> bool:
    """Note a branch; False when the directory, or the name for this table, is taken."""
    row: dict[str, Any] = {c.name: getattr(new, c.name) for c in branch.c}
    return session.run(_INSERT, row) == 1


def delete(session: Session, table_id: int, directory: str) -> None:
    """Forget a branch, whose directory is cleaned up."""
    session.run(_DELETE, {"table_id": table_id, "directory": directory})


def ended(session: Session) -> list[LoggedBranch]:
    """Branches of transactions that are not open any more, and named ones that are published."""
    return [LoggedBranch(*row) for row in session.rows(_ENDED)]


def live_directories(session: Session, table_id: int) -> set[str]:
    """The directories below a table where somebody may be working."""
    return {row[0] for row in session.rows(_LIVE, {"table_id": table_id})}


def named(session: Session, name: str | None = None) -> list[LoggedBranch]:
    """The branches of a name, one for each of its tables; all that are not published when None."""
    rows = session.rows(_NAMED) if name is None else session.rows(_OF_NAME, {"name": name})
    return [LoggedBranch(*row) for row in rows]


def rebase(session: Session, table_id: int, directory: str, version: int) -> None:
    """Let a branch on which nothing was done begin with another version."""
    session.run(_REBASE, {"id": table_id, "place": directory, "version": version})


def unname(session: Session, owner: str) -> None:
    """Let a named branch be over: it belongs to nobody, so its directories are cleaned up."""
    session.run(_UNNAME, {"id": owner})


def held_versions(session: Session, table_id: int) -> set[int]:
    """Versions of a table whose files branches and clones stand on: nobody may take these away."""
    return {row[0] for row in session.rows(_HELD, {"table_id": table_id})}


def insert_clone(session: Session, table_id: int, source_id: int, source_version: int) -> None:
    """Note that a table stands on a version of another one, and on what that one stands on."""
    row = {"table_id": table_id, "source_id": source_id, "source_version": source_version}
    session.run(_INSERT_CLONE, row)
    session.run(_INHERIT, {"table_id": table_id, "source_id": source_id})


def clones(session: Session) -> list[tuple[int, str]]:
    """The tables that were made as clones, oldest first, each with its commit's info as text."""
    return [(table_id, info) for table_id, info in session.rows(_CLONES)]
