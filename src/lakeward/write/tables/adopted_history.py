"""A history entered into the log, whole, behind a new head."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lakeward.context import LakeContext
from lakeward.errors import AlreadyExists
from lakeward.log import audit, heads
from lakeward.log.database import Session
from lakeward.model.clock import now_ms
from lakeward.model.commit import Head
from lakeward.model.history import TableHistory
from lakeward.model.names import TableName
from lakeward.write.commit.record import record_history


def insert_adopted(
    context: LakeContext,
    name: TableName,
    location: str,
    history: TableHistory,
    *,
    guard: bool,
    drift: str,
    format: str = "delta",  # noqa: A002  the name users know
    pointer: str | None = None,
    enter: Callable[[Session], None] = lambda _: None,
) -> Head:
    """Insert a table with its whole history in one database transaction; its head.

    Args:
        context: The lake's.
        name: What the lake shall call it.
        location: Its directory, as the log keeps it.
        history: All of it.
        guard: Whether the table is guarded.
        drift: `adopt` or `refuse` what others commit later.
        format: Of the table.
        pointer: The metadata document that the newest version stands for.
        enter: Called with the session before anything is inserted.

    Raises:
        AlreadyExists: The name or the location is taken.
    """
    with context.database.write() as session:
        context.check_bound(session)
        enter(session)
        taken = heads.by_location(session, location)
        if taken is not None:
            what = f"The lake has the table at {context.storage.uri(location)} as {taken.name}."
            raise AlreadyExists(what, table=str(taken.name))
        around = heads.nested(session, location)
        if around is not None:
            what = f"{context.storage.uri(location)} lies inside table {around}, or around it."
            hint = "Tables do not nest: move one of them first."
            raise AlreadyExists(what, hint=hint, table=str(around))
        now = now_ms()
        newest = history.commits[-1]
        head = Head(
            table_id=0,
            uuid=history.uuid,
            name=name,
            format=format,
            location=location,
            guarded=guard,
            drift=drift,
            version=newest.version,
            timestamp_ms=newest.timestamp_ms,
            definition_id=len(history.definitions) - 1,
            published=newest.version,
            audit_seq=0,
            audit_hash=audit.GENESIS,
            pointer=pointer,
        )
        head = replace(head, table_id=heads.insert(session, head, now))
        record_history(session, head, history)
        head = audit.record(
            session,
            head,
            at_ms=now,
            actor=context.actor,
            action="ADOPT TABLE",
            version=newest.version,
            detail={"location": location, "first_version": history.first_version},
        )
        heads.advance(session, head)
        return head
