"""Writers of streams: the instance that may commit to a table, and its last epoch.

An instance takes a new generation when it opens, which fences off the instance before. Taking a
generation and committing an epoch lock the same row, so a new instance sees every epoch of older
instances, and an older one commits none afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from lakeward.log.codec import dumps, loads
from lakeward.log.database import Session
from lakeward.log.statement import Statement

_TAKE = Statement(
    """INSERT INTO lakeward_writer
        (table_id, writer_id, instance, generation, actor, opened_ms)
    VALUES (:table_id, :writer_id, :instance, 1, :actor, :opened_ms)
    ON CONFLICT (table_id, writer_id) DO UPDATE SET instance = excluded.instance,
        generation = lakeward_writer.generation + 1, actor = excluded.actor,
        opened_ms = excluded.opened_ms"""
)
_COLUMNS = ("generation", "instance", "actor", "epoch", "transaction_id", "progress")
_GET = Statement(
    f"""SELECT {", ".join(_COLUMNS)} FROM lakeward_writer
    WHERE table_id = :table_id AND writer_id = :writer_id"""  # noqa: S608  our names
)
_ADVANCE = Statement(
    """UPDATE lakeward_writer
    SET epoch = :epoch, transaction_id = :transaction_id, progress = :progress
    WHERE table_id = :table_id AND writer_id = :writer_id AND instance = :instance
        AND (epoch IS NULL OR epoch < :after)"""
)
_ALIGN = Statement(
    """UPDATE lakeward_writer SET epoch = :epoch, progress = :progress
    WHERE table_id = :table_id AND writer_id = :writer_id"""
)
_LAST = Statement(
    """SELECT app_version FROM lakeward_app_transaction
    WHERE table_id = :table_id AND app_id = :writer_id ORDER BY version DESC LIMIT 1"""
)
_VERSION = Statement(
    """SELECT version FROM lakeward_app_transaction
    WHERE table_id = :table_id AND app_id = :writer_id AND app_version = :epoch
    ORDER BY version LIMIT 1"""
)


@dataclass(frozen=True, slots=True)
class Writer:
    """A writer's row."""

    generation: int
    """The number of instances so far, including this one."""
    instance: str
    """The id of the instance that may commit."""
    actor: str
    epoch: int | None
    """The last committed epoch, committed by the transaction `transaction_id`."""
    transaction_id: str | None
    progress: Any
    """The position in the source that was committed with the epoch."""


def take(
    session: Session, table_id: int, writer_id: str, *, instance: str, actor: str, now: int
) -> Writer:
    """Make an instance the only one that may commit; return the writer's row.

    Wait until a commit of the instance before has ended.
    """
    own = {"table_id": table_id, "writer_id": writer_id}
    session.run(_TAKE, {**own, "instance": instance, "actor": actor, "opened_ms": now})
    found = get(session, table_id, writer_id)
    assert found is not None  # noqa: S101  it was just written
    return found


def get(session: Session, table_id: int, writer_id: str) -> Writer | None:
    """Return a writer's row; None if it never opened a sink for the table."""
    row = session.row(_GET, {"table_id": table_id, "writer_id": writer_id})
    if row is None:
        return None
    found = Writer(*row)
    return found if found.progress is None else replace(found, progress=loads(found.progress))


def advance(
    session: Session,
    table_id: int,
    writer_id: str,
    *,
    instance: str,
    epoch: int,
    transaction_id: str,
    progress: Any,
) -> bool:
    """Record an epoch; return False if it was committed before or the instance is fenced off."""
    params = {
        "table_id": table_id,
        "writer_id": writer_id,
        "instance": instance,
        "epoch": epoch,
        "after": epoch,
        "transaction_id": transaction_id,
        "progress": None if progress is None else dumps(progress),
    }
    return session.run(_ADVANCE, params) == 1


def align(
    session: Session, table_id: int, writer_id: str, *, epoch: int | None, progress: Any
) -> None:
    """Set a writer's last epoch and progress to those found in the table's log."""
    text = None if progress is None else dumps(progress)
    own = {"table_id": table_id, "writer_id": writer_id}
    session.run(_ALIGN, {**own, "epoch": epoch, "progress": text})


def last_epoch(session: Session, table_id: int, writer_id: str) -> int | None:
    """Return a writer's newest epoch among the table's application transactions, or None."""
    row = session.row(_LAST, {"table_id": table_id, "writer_id": writer_id})
    return None if row is None else row[0]


def version_of(session: Session, table_id: int, writer_id: str, epoch: int) -> int | None:
    """Return the version that committed an epoch; None if the log does not have it."""
    row = session.row(_VERSION, {"table_id": table_id, "writer_id": writer_id, "epoch": epoch})
    return None if row is None else row[0]
