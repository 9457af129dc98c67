"""A history entered into the log, whole, behind a new head."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from lakeward.context import LakeContext
from lakeward.errors import AlreadyExists
from lakeward.log import audit, commits, definitions, files, heads
from lakeward.log.database import Session
from lakeward.model.clock import now_ms
from lakeward.model.commit import Commit, Head
from lakeward.model.file import LIVE
from lakeward.model.history import TableHistory
from lakeward.model.names import TableName


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
        _insert_history(session, head.table_id, history)
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


def _insert_history(session: Session, table_id: int, history: TableHistory) -> None:
    starts = {version: number for number, (version, _) in enumerate(history.definitions)}
    for number, (version, definition) in enumerate(history.definitions):
        definitions.insert(session, table_id, number, version, definition)
    applications: dict[int, list[Any]] = {}
    for version, application in history.app_transactions:
        applications.setdefault(version, []).append(application)
    commits.insert_many(
        session, table_id, _with_applications(history.commits, applications), starts
    )
    for indexed, group in _by_index(history):
        files.insert(session, table_id, group, indexed)


def _with_applications(
    source: list[Commit], applications: dict[int, list[Any]]
) -> Iterator[Commit]:
    for commit in source:
        yield replace(commit, app_transactions=tuple(applications.get(commit.version, ())))


def _by_index(history: TableHistory) -> Iterator[tuple[Any, list[Any]]]:
    """Files together with the fields that were indexed when they were added."""
    bounds = [version for version, _ in history.definitions[1:]] + [LIVE]
    start = 0
    ordered = history.files
    for (_, definition), until in zip(history.definitions, bounds, strict=True):
        end = start
        while end < len(ordered) and ordered[end].added < until:
            end += 1
        if end > start:
            yield definition.indexed, ordered[start:end]
        start = end
