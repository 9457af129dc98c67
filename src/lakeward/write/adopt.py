"""Adoption: an existing table taken into the log, with its history, where it lies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from lakeward.errors import AlreadyExists, InvalidInput
from lakeward.formats.delta.generated import derived_of, without_marks
from lakeward.formats.delta.history import read_history
from lakeward.formats.delta.protocol import ICT, ICT_PROPERTY, guarded, is_guarded, writer_features
from lakeward.log import audit, commits, definitions, files, heads, transactions
from lakeward.log.database import Session
from lakeward.model.clock import now_ms
from lakeward.model.commit import Commit, CommitInfo, Head, Isolation, new_transaction_id
from lakeward.model.definition import Definition
from lakeward.model.file import LIVE
from lakeward.model.history import TableHistory
from lakeward.model.names import TableName
from lakeward.read.parts import Parts
from lakeward.storage.base import Storage
from lakeward.write.open_table import commit_open
from lakeward.write.publish import checkpoint_if_due
from lakeward.write.ratify import timestamp_after
from lakeward.write.record import Ratified

DRIFT: Final = ("adopt", "refuse")


def adopt(
    parts: Parts,
    name: TableName,
    location: str | Path,
    *,
    guard: bool,
    drift: str = "adopt",
    take_over: bool = False,
) -> Head:
    """Take an existing Delta table into the lake.

    Args:
        parts: The lake's.
        name: What the lake shall call it.
        location: Its directory.
        guard: Keep other writers out from now on: one commit on the table says so.
        drift: On a table left open, `adopt` or `refuse` what others commit later.
        take_over: Take the table even if it is guarded, because the lake that guards it is gone.

    Raises:
        TableNotFound: There is no table.
        CorruptTable: Its log cannot be understood. Nothing was changed.
        AlreadyExists: The lake has it, or another lake guards it.
    """
    if drift not in DRIFT:
        what = f"drift={drift!r} is not known."
        raise InvalidInput(what, hint="Use 'adopt' or 'refuse'.")
    place = relative_location(parts.storage, location)
    history = read_history(parts.storage, place)
    current = history.definitions[-1][1]
    already = is_guarded(current.protocol)
    if already and not take_over:
        what = f"The table at {parts.storage.uri(place)} is guarded by a lake."
        hint = "Work with it through that lake; if that lake is gone, adopt it with take_over."
        raise AlreadyExists(what, hint=hint, location=str(location))
    head = _insert(parts, name, place, history, guard=already, drift=drift)
    if guard and not already:
        head = _guard(parts, head)
    return head


def relative_location(storage: Storage, location: str | Path) -> str:
    """A directory as the log keeps it: below the warehouse where it is, absolute elsewhere."""
    text = str(location).removeprefix("file://")
    if "://" in text:
        what = f"Tables on {text.split('://')[0]}:// cannot be adopted yet."
        raise InvalidInput(what, hint="Give a directory.")
    path = Path(text).expanduser().resolve()
    root = Path(storage.root).resolve()
    if path == root:
        what = f"{path} is the warehouse itself, not a table in it."
        raise InvalidInput(what)
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


def _insert(
    parts: Parts,
    name: TableName,
    location: str,
    history: TableHistory,
    *,
    guard: bool,
    drift: str,
) -> Head:
    """The whole history in one database transaction."""
    with parts.database.write() as session:
        taken = heads.by_location(session, location)
        if taken is not None:
            what = f"The lake has the table at {parts.storage.uri(location)} as {taken.name}."
            raise AlreadyExists(what, table=str(taken.name))
        around = heads.nested(session, location)
        if around is not None:
            what = f"{parts.storage.uri(location)} lies inside table {around}, or around it."
            hint = "Tables do not nest: move one of them first."
            raise AlreadyExists(what, hint=hint, table=str(around))
        now = now_ms()
        newest = history.commits[-1]
        head = Head(
            table_id=0,
            uuid=history.uuid,
            name=name,
            format="delta",
            location=location,
            guarded=guard,
            drift=drift,
            version=newest.version,
            timestamp_ms=newest.timestamp_ms,
            definition_id=len(history.definitions) - 1,
            published=newest.version,
            audit_seq=0,
            audit_hash=audit.GENESIS,
        )
        head = replace(head, table_id=heads.insert(session, head, now))
        _insert_history(session, head.table_id, history)
        head = audit.record(
            session,
            head,
            at_ms=now,
            actor=parts.actor,
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


def _guard(parts: Parts, head: Head) -> Head:
    """Commit the guard: arbitrated like any commit on an open table, so no foreign one is lost."""
    transaction_id = new_transaction_id()
    with parts.database.write() as session:
        transactions.register(
            session,
            parts.database.clock_ms(session),
            transaction_id=transaction_id,
            actor=parts.actor,
            isolation=Isolation.SNAPSHOT.value,
            message=None,
        )

    def build(session: Session, current: Head) -> Ratified:
        timestamp = timestamp_after([current])
        before = parts.definition(session, current)
        definition = _guarded(before, current.version + 1, timestamp)
        commit = Commit(
            version=current.version + 1,
            timestamp_ms=timestamp,
            info=CommitInfo(
                transaction_id=transaction_id,
                operation="ADOPT TABLE",
                parameters={"guard": "true"},
                actor=parts.actor,
                engine=parts.engine,
            ),
            definition=definition,
        )
        heads.set_guarded(session, current.table_id, guarded=True)
        advanced = replace(
            current,
            version=commit.version,
            timestamp_ms=timestamp,
            definition_id=current.definition_id + 1,
            guarded=True,
        )
        return Ratified(advanced, commit, definition)

    member = commit_open(parts, transaction_id, head, build)
    checkpoint_if_due(parts, member)
    return member.head


def _guarded(before: Definition, version: int, timestamp_ms: int) -> Definition:
    properties = dict(before.properties)
    if ICT not in writer_features(before.protocol) or properties.get(ICT_PROPERTY) != "true":
        properties[ICT_PROPERTY] = "true"
        # Readers take the files' own times for what was committed before this.
        properties["delta.inCommitTimestampEnablementVersion"] = str(version)
        properties["delta.inCommitTimestampEnablementTimestamp"] = str(timestamp_ms)
    protocol = guarded(before.protocol)
    schema = without_marks(before.schema)
    return replace(
        before,
        schema=schema,
        properties=properties,
        protocol=protocol,
        derived=derived_of(schema, protocol),
    )
