"""Writers of streams: which instance of each may commit to a table, and how far it came.

An instance takes a generation when it opens; the one before is fenced off from then on. Taking one
and committing an epoch lock the same row, so whoever takes a generation sees every epoch that was
committed under an older one, and none is committed under an older one after that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam

from lakeward.log.codec import dumps, loads
from lakeward.log.database import Session
from lakeward.log.statement import Statement
from lakeward.log.tables import app_transaction, writer

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
    sa.select(*(writer.c[n] for n in _COLUMNS)).where(
        writer.c.table_id == bindparam("table_id"), writer.c.writer_id == bindparam("writer_id")
    )
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
_OWN = (
    app_transaction.c.table_id == bindparam("table_id"),
    app_transaction.c.app_id == bindparam("writer_id"),
)
_LAST = Statement(
    sa.select(app_transaction.c.app_version)
    .where(*_OWN)
    .order_by(app_transaction.c.version.desc())
    .limit(1)
)
_VERSION = Statement(
    sa.select(app_transaction.c.version)
    .where(*_OWN, app_transaction.c.app_version == bindparam("epoch"))
    .order_by(app_transaction.c.version)
    .limit(1)
)


@dataclass(frozen=True, slots=True)
class Writer:
    """A writer's row.

    Attributes:
        generation: How many instances there were, this one included.
        instance: The one that may commit.
        actor: Who opened it.
        epoch: The last one that was committed, and by which transaction.
        transaction_id: That transaction.
        progress: What the writer had recorded with it.
    """

    generation: int
    instance: str
    actor: str
    epoch: int | None
    transaction_id: str | None
    progress: Any


def take(
    session: Session, table_id: int, writer_id: str, *, instance: str, actor: str, now: int
) -> Writer:
    """Let an instance be the one that may commit, after whoever is just committing."""
    own = {"table_id": table_id, "writer_id": writer_id}
    session.run(_TAKE, {**own, "instance": instance, "actor": actor, "opened_ms": now})
    found = get(session, table_id, writer_id)
    assert found is not None  # noqa: S101  it was just written
    return found


def get(session: Session, table_id: int, writer_id: str) -> Writer | None:
    """A writer's row, if it ever opened a sink for the table."""
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
    """Record an epoch; False where the instance may not commit any more, or the epoch is there."""
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
    """Let a writer's row say what the table's log says of its last epoch."""
    text = None if progress is None else dumps(progress)
    own = {"table_id": table_id, "writer_id": writer_id}
    session.run(_ALIGN, {**own, "epoch": epoch, "progress": text})


def last_epoch(session: Session, table_id: int, writer_id: str) -> int | None:
    """The number that was committed last as the writer's application transaction."""
    row = session.row(_LAST, {"table_id": table_id, "writer_id": writer_id})
    return None if row is None else row[0]


def version_of(session: Session, table_id: int, writer_id: str, epoch: int) -> int | None:
    """The version that an epoch was committed as, while the log has it."""
    row = session.row(_VERSION, {"table_id": table_id, "writer_id": writer_id, "epoch": epoch})
    return None if row is None else row[0]
