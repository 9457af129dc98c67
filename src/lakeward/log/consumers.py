"""Consumers of the lake's changes, each with the position up to which it has processed them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lakeward.log.database import Session
from lakeward.log.statement import Statement, insertion
from lakeward.log.tables import consumer

_COLUMNS = ", ".join(consumer.columns)
_GET = Statement(f"SELECT {_COLUMNS} FROM lakeward_consumer WHERE name = :name")  # noqa: S608  our names
_ALL = Statement(f"SELECT {_COLUMNS} FROM lakeward_consumer ORDER BY name")  # noqa: S608  our names
_INSERT = insertion(consumer)
_MOVE = Statement(
    """UPDATE lakeward_consumer SET position = :position, transaction_id = :transaction_id,
        actor = :actor, moved_ms = :moved_ms
    WHERE name = :name AND position = :expected"""
)
_MOVE_UP = Statement(
    """UPDATE lakeward_consumer SET position = :position, transaction_id = :transaction_id,
        actor = :actor, moved_ms = :moved_ms
    WHERE name = :name AND position < :position"""
)
_DELETE = Statement("DELETE FROM lakeward_consumer WHERE name = :name")


@dataclass(frozen=True, slots=True)
class ConsumerRow:
    """A consumer; `transaction_id` is the transaction that set its position, or None."""

    name: str
    position: int
    transaction_id: str | None
    actor: str
    moved_ms: int


def get(session: Session, name: str) -> ConsumerRow | None:
    """Return the consumer of this name, or None."""
    row = session.row(_GET, {"name": name})
    return None if row is None else ConsumerRow(*row)


def every(session: Session) -> list[ConsumerRow]:
    """Return all consumers, by name."""
    return [ConsumerRow(*row) for row in session.rows(_ALL)]


def add(session: Session, new: ConsumerRow) -> bool:
    """Insert a consumer; return False if the name exists."""
    return session.run(_INSERT, _params(new)) == 1


def move(session: Session, new: ConsumerRow, expected: int) -> bool:
    """Set a consumer's position if it is still `expected`; return whether it was."""
    return session.run(_MOVE, {**_params(new), "expected": expected}) == 1


def move_up(session: Session, new: ConsumerRow) -> bool:
    """Set a consumer's position if it is lower; return whether it was."""
    return session.run(_MOVE_UP, _params(new)) == 1


def delete(session: Session, name: str) -> bool:
    """Delete a consumer; return False if there is none of this name."""
    return session.run(_DELETE, {"name": name}) == 1


def _params(source: ConsumerRow) -> dict[str, Any]:
    return {
        "name": source.name,
        "position": source.position,
        "transaction_id": source.transaction_id,
        "actor": source.actor,
        "moved_ms": source.moved_ms,
    }
