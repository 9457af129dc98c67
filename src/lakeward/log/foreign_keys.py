"""Foreign keys by the table to which they refer, as of each table's newest definition."""

from __future__ import annotations

from lakeward.log.database import Session
from lakeward.log.statement import Statement, insertion
from lakeward.log.tables import foreign_key
from lakeward.model.constraints import foreign_keys
from lakeward.model.definition import Definition
from lakeward.model.names import TableName

_FORGET = Statement("DELETE FROM lakeward_foreign_key WHERE table_id = :table_id")
_INSERT = insertion(foreign_key)
_TO = Statement(
    """SELECT k.table_id, k.name FROM lakeward_foreign_key k
    JOIN lakeward_head h ON h.table_id = k.table_id
    WHERE k.parent = :parent AND h.dropped_ms IS NULL ORDER BY k.table_id, k.name"""
)


def replace(session: Session, table_id: int, new: Definition) -> None:
    """Record the foreign keys of a table's new definition; replace those of the old one."""
    session.run(_FORGET, {"table_id": table_id})
    for name, key in foreign_keys(new).items():
        session.run(_INSERT, {"table_id": table_id, "name": name, "parent": key.references})


def referring_to(session: Session, parent: TableName) -> list[tuple[int, str]]:
    """Return the foreign keys that refer to a table: id of the referring table, name of the key."""
    return [(row[0], row[1]) for row in session.rows(_TO, {"parent": str(parent)})]
