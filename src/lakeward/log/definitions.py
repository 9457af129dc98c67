"""Table definitions with their version ranges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lakeward.errors import StoreCorrupt
from lakeward.log import foreign_keys
from lakeward.log.codec import dumps, loads
from lakeward.log.database import Session
from lakeward.log.statement import Statement, insertion
from lakeward.log.tables import definition
from lakeward.model.definition import Definition
from lakeward.model.file import LIVE

_GET = Statement(
    """SELECT body FROM lakeward_definition
    WHERE table_id = :table_id AND definition_id = :definition_id"""
)
_FROM = Statement(
    """SELECT from_version FROM lakeward_definition
    WHERE table_id = :table_id AND definition_id = :definition_id"""
)
_AT = Statement(
    """SELECT definition_id, body FROM lakeward_definition
    WHERE table_id = :table_id AND from_version <= :version AND until_version > :version"""
)
_BETWEEN = Statement(
    """SELECT definition_id, from_version, until_version, body FROM lakeward_definition
    WHERE table_id = :table_id AND until_version > :first AND from_version < :end
    ORDER BY definition_id"""
)
_ALL = Statement(
    """SELECT definition_id, from_version, until_version, body FROM lakeward_definition
    WHERE table_id = :table_id ORDER BY definition_id"""
)
_INSERT = insertion(definition, "")
_END = Statement(
    """UPDATE lakeward_definition SET until_version = :until
    WHERE table_id = :table AND until_version = :live"""
)


def get(session: Session, table_id: int, definition_id: int) -> Definition:
    """Return a table's definition by its id; raise `StoreCorrupt` if it cannot be read."""
    row = session.row(_GET, {"table_id": table_id, "definition_id": definition_id})
    return _read(row, f"definition {definition_id}")


def at(session: Session, table_id: int, version: int) -> tuple[int, Definition]:
    """Return the id and the definition of a version; raise `StoreCorrupt` if it cannot be read."""
    row = session.row(_AT, {"table_id": table_id, "version": version})
    found = _read(row and row[1:], f"definition at version {version}")
    return row[0], found


def of_table(session: Session, table_id: int) -> list[tuple[int, int, Definition]]:
    """Return a table's definitions, oldest first: first version, end (exclusive), definition."""
    return _all(session.rows(_ALL, {"table_id": table_id}))


def between(
    session: Session, table_id: int, first: int, end: int
) -> list[tuple[int, int, Definition]]:
    """Return the definitions of the versions from `first` to before `end`, as `of_table` does."""
    return _all(session.rows(_BETWEEN, {"table_id": table_id, "first": first, "end": end}))


def first_version(session: Session, table_id: int, definition_id: int) -> int | None:
    """Return the version that introduced a definition; None if there is no such definition."""
    row = session.row(_FROM, {"table_id": table_id, "definition_id": definition_id})
    return row[0] if row else None


def insert(
    session: Session, table_id: int, definition_id: int, version: int, new: Definition
) -> None:
    """Insert a definition valid from `version` on, and end the one before it."""
    session.run(_END, {"table": table_id, "live": LIVE, "until": version})
    session.run(
        _INSERT,
        {
            "table_id": table_id,
            "definition_id": definition_id,
            "from_version": version,
            "until_version": LIVE,
            "body": dumps(new.to_json()),
        },
    )
    foreign_keys.replace(session, table_id, new)
    session.has_redefined = True


def _all(rows: Sequence[Any]) -> list[tuple[int, int, Definition]]:
    return [(since, until, _read((body,), f"definition {n}")) for n, since, until, body in rows]


def _read(row: Any, which: str) -> Definition:
    try:
        return Definition.from_json(loads(row[0]))
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        what = f"The store is damaged: the {which} of a table is missing or cannot be read."
        hint = "`lakeward doctor` shows more. Restore a backup, or run `lakeward rebuild`."
        raise StoreCorrupt(what, hint=hint) from error
