"""Table definitions with their version ranges."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import bindparam

from lakeward.log.codec import dumps, loads
from lakeward.log.database import Session
from lakeward.log.statement import Statement
from lakeward.log.tables import definition
from lakeward.model.definition import Definition
from lakeward.model.file import LIVE

_GET = Statement(
    sa.select(definition.c.body).where(
        definition.c.table_id == bindparam("table_id"),
        definition.c.definition_id == bindparam("definition_id"),
    )
)
_AT = Statement(
    sa.select(definition.c.definition_id, definition.c.body).where(
        definition.c.table_id == bindparam("table_id"),
        definition.c.from_version <= bindparam("version"),
        definition.c.until_version > bindparam("version"),
    )
)
_INSERT = Statement(sa.insert(definition))
_END = Statement(
    sa.update(definition)
    .where(
        definition.c.table_id == bindparam("table"),
        definition.c.until_version == bindparam("live"),
    )
    .values(until_version=bindparam("until"))
)


def get(session: Session, table_id: int, definition_id: int) -> Definition:
    """A definition by its id within the table."""
    row = session.row(_GET, {"table_id": table_id, "definition_id": definition_id})
    return Definition.from_json(loads(row[0]))


def at(session: Session, table_id: int, version: int) -> tuple[int, Definition]:
    """The definition that held at a version, with its id."""
    row = session.row(_AT, {"table_id": table_id, "version": version})
    return row[0], Definition.from_json(loads(row[1]))


def insert(
    session: Session, table_id: int, definition_id: int, version: int, new: Definition
) -> None:
    """Let a definition hold from a version on, and the one before it until there."""
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
