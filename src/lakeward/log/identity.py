"""Counters of identity columns: how many values of each column have been given out.

Ranges of values are given out before rows are written, in a separate database transaction, so that
no two writers get the same value. A transaction gives unused values back if no writer took values
after it; otherwise they remain a gap.
"""

from __future__ import annotations

from lakeward.log.database import Session
from lakeward.log.statement import Statement

_TAKEN = Statement(
    "SELECT taken FROM lakeward_identity WHERE uuid = :uuid AND field_id = :field_id"
)
_BEGIN = Statement(
    """INSERT INTO lakeward_identity (uuid, field_id, taken) VALUES (:uuid, :field_id, 0)
    ON CONFLICT DO NOTHING"""
)
_LOCK = Statement(
    "SELECT taken FROM lakeward_identity WHERE uuid = :uuid AND field_id = :field_id FOR UPDATE"
)
_SET = Statement(
    "UPDATE lakeward_identity SET taken = :taken WHERE uuid = :uuid AND field_id = :field_id"
)
_MOVE = Statement(
    """UPDATE lakeward_identity SET taken = :taken
    WHERE uuid = :uuid AND field_id = :field_id AND taken = :known"""
)


def taken(session: Session, uuid: str, field_id: int) -> int:
    """Return how many values of a column were given out, according to the store."""
    row = session.row(_TAKEN, {"uuid": uuid, "field_id": field_id})
    return 0 if row is None else int(row[0])


def take(session: Session, uuid: str, field_id: int, count: int, *, at_least: int) -> int:
    """Give out the next `count` values of a column; return the index of the first, from 0.

    `at_least` is the number of values up to the column's high-water mark.
    """
    key = {"uuid": uuid, "field_id": field_id}
    session.run(_BEGIN, key)
    row = session.row(_LOCK, key)
    first = max(at_least, 0 if row is None else int(row[0]))
    session.run(_SET, {**key, "taken": first + count})
    return first


def move(session: Session, uuid: str, field_id: int, *, known: int, taken: int) -> bool:
    """Set how many values were given out, if it is still `known`; return whether it was."""
    given = {"uuid": uuid, "field_id": field_id, "known": known, "taken": taken}
    return session.run(_MOVE, given) == 1
