"""Former names of tables: a commit that renames a table records the name before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from lakeward.log import commits, heads
from lakeward.log.codec import info_of
from lakeward.log.database import Session
from lakeward.log.statement import Statement
from lakeward.model.commit import Head
from lakeward.model.names import TableName

RENAME: Final = "RENAME TABLE"
BEFORE: Final = "from"
"""The parameter of a `RENAME TABLE` commit that holds the former name."""
_NEXT = Statement(
    f"""SELECT transaction_id, operation, actor, info FROM lakeward_commit
    WHERE table_id = :table_id AND version > :version AND operation = '{RENAME}'
    ORDER BY version LIMIT 1"""  # noqa: S608  our names
)
# With `table_id` alone SQLite would use the primary key, and read all commits of the table.
_ALL = Statement(
    f"""SELECT version, transaction_id, operation, actor, info FROM lakeward_commit
    WHERE table_id + 0 = :table_id AND operation = '{RENAME}' ORDER BY version"""  # noqa: S608  our names
)
_EVERY = Statement(
    f"""SELECT table_id, version, transaction_id, operation, actor, info FROM lakeward_commit
    WHERE operation = '{RENAME}' ORDER BY table_id, version"""  # noqa: S608  our names
)


@dataclass(frozen=True, slots=True)
class Names:
    """The name that a table has, or had last, and the former ones with the version that ended each.

    A name is unique among the tables that a transaction changed, at the time of its commit only.
    """

    now: TableName
    former: Sequence[tuple[int, TableName]]

    def at(self, version: int) -> TableName:
        """Return the table's name right after the commit of a version."""
        return next((name for end, name in self.former if end > version), self.now)


def names(session: Session, table_id: int) -> Names:
    """Return the names of a table, even if it was dropped."""
    return Names(heads.ever_by_id(session, table_id).name, _former(session, table_id))


class AllNames:
    """The names that the tables of a lake had at earlier versions, read once for all tables."""

    def __init__(self, session: Session) -> None:
        self._former: dict[int, list[tuple[int, TableName]]] = {}
        for table_id, version, *info in session.rows(_EVERY):
            before = info_of(*info).parameters.get(BEFORE)
            if before is not None:
                known = self._former.setdefault(table_id, [])
                known.append((version, TableName.parse(str(before))))

    def at(self, head: Head, version: int) -> TableName:
        """Return a table's name right after the commit of a version."""
        return Names(head.name, self._former.get(head.table_id, ())).at(version)


def former(session: Session) -> set[TableName]:
    """Return all names that tables had before they were renamed."""
    found = (info_of(*info).parameters.get(BEFORE) for _, _, *info in session.rows(_EVERY))
    return {TableName.parse(str(name)) for name in found if name is not None}


def members(session: Session, transaction_id: str) -> dict[str, tuple[int, str]]:
    """Return the version that a transaction made of each table, and the table's name now.

    The keys are the names that the tables had at the commit.
    """
    found = commits.members(session, transaction_id)
    return {str(Names(now, _former(session, i)).at(v)): (v, str(now)) for now, i, v in found}


def dropped_members(session: Session, transaction_id: str) -> tuple[str, ...]:
    """Return the tables of a transaction that were dropped since, by their names at the commit."""
    gone = commits.dropped_members(session, transaction_id)
    if not gone:
        return ()
    found = commits.members(session, transaction_id)
    return tuple(str(Names(now, _former(session, i)).at(v)) for now, i, v in found if i in gone)


def head_at(session: Session, head: Head, version: int) -> Head:
    """Return the head with the table's name as of `version`, as published files have it."""
    row = session.row(_NEXT, {"table_id": head.table_id, "version": version})
    before = None if row is None else info_of(*row).parameters.get(BEFORE)
    return head if before is None else replace(head, name=TableName.parse(str(before)))


def _former(session: Session, table_id: int) -> list[tuple[int, TableName]]:
    """Return the former names of a table, each with the version that ended it, oldest first."""
    out = []
    for version, *info in session.rows(_ALL, {"table_id": table_id}):
        before = info_of(*info).parameters.get(BEFORE)
        if before is not None:
            out.append((version, TableName.parse(str(before))))
    return out
