"""Statistics of versions and sketches of columns, and the size of a table over its versions."""

from __future__ import annotations

import base64
from typing import Any

from lakeward.log.codec import dumps, loads
from lakeward.log.database import Session
from lakeward.log.statement import Statement, insertion
from lakeward.log.tables import sketch, statistics

_PUT = insertion(statistics, "ON CONFLICT (table_id, version) DO NOTHING")
_NEAREST = Statement(
    """SELECT version, body FROM lakeward_statistics
    WHERE table_id = :table_id AND version <= :version ORDER BY version DESC LIMIT 1"""
)
_PUT_SKETCH = insertion(sketch, "ON CONFLICT (table_id, field_id, version) DO NOTHING")
_NEAREST_SKETCH = Statement(
    """SELECT version, body FROM lakeward_sketch
    WHERE table_id = :table_id AND field_id = :field_id AND version <= :version
    ORDER BY version DESC LIMIT 1"""
)
_ADDED = Statement(
    """SELECT added_version, sum(row_count), count(*), sum(size) FROM lakeward_file
    WHERE table_id = :table_id AND added_version > :after AND added_version <= :version
    GROUP BY added_version"""
)
_REMOVED = Statement(
    """SELECT removed_version, sum(row_count), count(*), sum(size) FROM lakeward_file
    WHERE table_id = :table_id AND removed_version > :after AND removed_version <= :version
    GROUP BY removed_version"""
)
_LAST_REMOVAL = Statement(
    """SELECT max(removed_version) FROM lakeward_file
    WHERE table_id = :table_id AND removed_version <= :version"""
)


def put(session: Session, table_id: int, version: int, body: dict[str, Any]) -> None:
    """Store the statistics of a version, unless there are some."""
    session.run(_PUT, {"table_id": table_id, "version": version, "body": dumps(body)})


def nearest(session: Session, table_id: int, version: int) -> tuple[int, dict[str, Any]] | None:
    """Return the newest stored statistics up to `version`, as (their version, body), or None."""
    rows = session.rows(_NEAREST, {"table_id": table_id, "version": version})
    return (int(rows[0][0]), loads(rows[0][1])) if rows else None


def last_removal(session: Session, table_id: int, version: int) -> int:
    """Return the newest version, up to `version`, that removed a file; 0 if none is known."""
    return int(session.row(_LAST_REMOVAL, {"table_id": table_id, "version": version})[0] or 0)


def put_sketch(session: Session, table_id: int, field_id: int, version: int, body: bytes) -> None:
    """Store the sketch of a column at a version, unless there is one."""
    params = {"table_id": table_id, "field_id": field_id, "version": version}
    session.run(_PUT_SKETCH, {**params, "body": base64.b64encode(body).decode()})


def nearest_sketch(
    session: Session, table_id: int, field_id: int, version: int
) -> tuple[int, bytes] | None:
    """Return a column's newest stored sketch up to `version`, as (its version, bytes), or None."""
    params = {"table_id": table_id, "field_id": field_id, "version": version}
    rows = session.rows(_NEAREST_SKETCH, params)
    return (int(rows[0][0]), base64.b64decode(rows[0][1])) if rows else None


def changes(
    session: Session, table_id: int, after: int, version: int
) -> dict[int, tuple[int, int, int]]:
    """Return, by version after `after`, the rows, files and bytes added minus those removed."""
    params = {"table_id": table_id, "after": after, "version": version}
    found: dict[int, tuple[int, int, int]] = {}
    for statement, sign in ((_ADDED, 1), (_REMOVED, -1)):
        for at, rows, files, size in session.rows(statement, params):
            old = found.get(int(at), (0, 0, 0))
            new = (int(rows or 0), int(files), int(size or 0))
            found[int(at)] = (
                old[0] + sign * new[0],
                old[1] + sign * new[1],
                old[2] + sign * new[2],
            )
    return found
