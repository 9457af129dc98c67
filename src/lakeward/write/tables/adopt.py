"""Adopts an existing table into the log, with its history, at its location."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from lakeward.context import LakeContext
from lakeward.errors import AlreadyExists, Conflict, InvalidInput, TableNotFound
from lakeward.formats.adoption import ADOPT_TABLE, Adoption
from lakeward.formats.base import Format, Ratified
from lakeward.formats.places import table_location
from lakeward.formats.registry import FORMATS, format_of
from lakeward.log import audit, heads, retired, transactions
from lakeward.log import catalog as own_catalog
from lakeward.log.database import Session
from lakeward.model import arguments
from lakeward.model.clock import now_ms
from lakeward.model.commit import Head, Isolation, TransactionState, new_transaction_id
from lakeward.model.names import TableName
from lakeward.write.commit.new_table import own_info, register
from lakeward.write.commit.open_table import commit_open
from lakeward.write.commit.outcome import ratify_surely, recorded
from lakeward.write.commit.publications import (
    checkpoint_if_due,
    publish_member,
    take_over_or_refuse,
)
from lakeward.write.commit.ratify import Intent, timestamp_after
from lakeward.write.commit.record import Draft, discarding, record, record_history

DRIFT: Final = ("adopt", "refuse")


def adopt(
    context: LakeContext,
    name: TableName,
    location: str | Path,
    *,
    guard: bool,
    drift: str = "adopt",
    take_over: bool = False,
    format: str | None = None,  # noqa: A002  the name users know
    catalog: Mapping[str, str] | str | None = None,
    note: Callable[[Session], None] | None = None,
    action: str = ADOPT_TABLE,
) -> Head:
    """Adopt an existing table into the lake; `Lake.adopt` documents the arguments and errors.

    `note` is called in the database transaction that inserts the table; `action` is the action in
    the audit trail.
    """
    if drift not in DRIFT:
        what = f"drift={drift!r} is not known."
        raise InvalidInput(what, hint="Use 'adopt' or 'refuse'.")
    if format is not None and format not in FORMATS:
        what = f"Tables of format {format!r} cannot be adopted."
        raise InvalidInput(what, hint="Use 'delta' or 'iceberg'.")
    if catalog is None:
        kind, source = _find(context, str(location), format)
    else:
        kind, source = _find_in_catalog(context, name, str(location), format, catalog)
    return adopt_from(
        context,
        name,
        kind,
        source,
        guard=guard,
        drift=drift,
        take_over=take_over,
        note=note,
        action=action,
    )


def adopt_from(
    context: LakeContext,
    name: TableName,
    kind: Format,
    source: str,
    *,
    guard: bool,
    drift: str = "adopt",
    take_over: bool = False,
    note: Callable[[Session], None] | None = None,
    action: str = ADOPT_TABLE,
) -> Head:
    """Adopt a table whose format and source (see `Format.find`) are known."""
    with context.database.read() as session:
        forgotten = retired.forgotten(session)
    found = kind.read_table(context, name, source, take_over=take_over)

    def check(session: Session) -> None:
        _check_not_vacuumed(context, session, found.location, forgotten)
        if note is not None:
            note(session)

    head = _insert(context, name, kind, found, drift=drift, note=check, action=action)
    if not guard or (found.guarded and not take_over):
        return head
    # A lake that dropped this table, and vacuums it, sees this commit and keeps the files.
    return _claim(context, head) if kind.always_guarded else _guard(context, head)


def _find(context: LakeContext, location: str, wanted: str | None) -> tuple[Format, str]:
    """Return the format of the table at a location, and its source for `Format.read_table`."""
    place = table_location(context.storage, location)
    path = context.storage.uri(place)
    for kind in FORMATS.values():
        if kind.names_table(path):
            return kind, path
    if wanted is not None:
        kind = FORMATS[wanted]
        return kind, kind.find(context, place, expected=True) or place
    found = [
        (kind, source)
        for kind in FORMATS.values()
        if (source := kind.find(context, place, expected=False)) is not None
    ]
    if len(found) > 1:
        what = f"Both a Delta and an Iceberg table lie at {path}."
        raise InvalidInput(what, hint="Say which with format='delta' or format='iceberg'.")
    if not found:
        what = f"There is no Delta or Iceberg table at {path}."
        raise TableNotFound(what, hint="Check the location.", location=path)
    return found[0]


def _find_in_catalog(
    context: LakeContext,
    name: TableName,
    known: str,
    wanted: str | None,
    catalog: Mapping[str, str] | str,
) -> tuple[Format, str]:
    """Return the format of a table in a catalog, and its source for `Format.read_table`."""
    own = catalog == own_catalog.CATALOG
    if own and known != str(name):
        what = f"A table of the lake's own catalog keeps its name there, {known}."
        raise InvalidInput(what, hint="Give that name twice.", table=str(name))
    properties = None if own else arguments.mapping(catalog, "catalog")
    kind = next(kind for kind in FORMATS.values() if kind.has_catalog)
    if not own and wanted is not None and not FORMATS[wanted].has_catalog:
        what = "A catalog has Iceberg tables, and `location` names one of them."
        raise InvalidInput(what, hint="Give its name there, as `namespace.table`.")
    return kind, kind.find_in_catalog(context, name, properties, known)


def _insert(
    context: LakeContext,
    name: TableName,
    kind: Format,
    found: Adoption,
    *,
    drift: str,
    note: Callable[[Session], None],
    action: str,
) -> Head:
    """Insert a table with its whole history in one database transaction; return its head."""
    with context.database.write() as session:
        context.check_bound(session)
        note(session)
        return insert_adopted(context, session, name, kind, found, drift=drift, action=action)


def insert_adopted(
    context: LakeContext,
    session: Session,
    name: TableName,
    kind: Format,
    found: Adoption,
    *,
    action: str,
    drift: str = "adopt",
    places: Sequence[int] | None = None,
) -> Head:
    """Insert a table with its whole history; return its head.

    `places` are the positions of its versions in the commit order; the next ones unless given.

    Raises:
        AlreadyExists: There is a table or a view of this name, or a table at this location.
    """
    location, history = found.location, found.history
    newest = history.commits[-1]
    if found.enter is not None:
        found.enter(session)
    _check_free(context, session, location)
    now = now_ms()
    head = Head(
        table_id=0,
        uuid=history.uuid,
        name=name,
        format=kind.name,
        location=location,
        guarded=found.guarded,
        drift=drift,
        version=newest.version,
        timestamp_ms=newest.timestamp_ms,
        definition_id=len(history.definitions) - 1,
        published=newest.version,
        audit_seq=0,
        audit_hash=audit.GENESIS,
        pointer=found.pointer,
    )
    head = replace(head, table_id=heads.insert(session, head, now))
    record_history(session, head, history, places)
    head = audit.record(
        session,
        head,
        at_ms=now,
        actor=context.actor,
        action=action,
        version=newest.version,
        detail={"location": location, "first_version": history.first_version},
    )
    heads.advance(session, head)
    return head


def _check_not_vacuumed(
    context: LakeContext, session: Session, location: str, forgotten: Collection[int]
) -> None:
    """Raise `Conflict` if vacuum may delete, or has deleted, files of the table that was read.

    That is so if the dropped table whose place it takes was retired. If that one was `forgotten`
    before the table was read, its files were gone by then, and the table is another one.
    """
    last_id = heads.last_at_location(session, location)
    if last_id is None or last_id in forgotten:
        return
    # Vacuum holds this lock while it retires versions.
    last, _ = heads.lock_ever(session, last_id)
    if retired.is_retired(session, last_id, last.version):
        place = context.storage.uri(location)
        what = f"Vacuum deletes the files of the dropped table {last.name} at {place}."
        hint = "Nothing was adopted. A new table can be adopted there once lake.vacuum() is done."
        raise Conflict(what, hint=hint, table=str(last.name), location=place)


def _check_free(context: LakeContext, session: Session, location: str) -> None:
    """Raise `AlreadyExists` if a table of the lake is at a location, inside it or around it."""
    taken = heads.by_location(session, location)
    if taken is not None:
        what = f"The lake has the table at {context.storage.uri(location)} as {taken.name}."
        raise AlreadyExists(what, table=str(taken.name))
    around = heads.nested(session, location)
    if around is not None:
        what = f"{context.storage.uri(location)} lies inside table {around}, or around it."
        hint = "Tables do not nest: move one of them first."
        raise AlreadyExists(what, hint=hint, table=str(around))


def _claim(context: LakeContext, head: Head) -> Head:
    """Commit the adoption of a table whose format needs no guard; return the new head."""

    def once(context: LakeContext, intent: Intent) -> list[Ratified]:
        own_id = intent.transaction_id
        with discarding() as members, context.database.write() as session:
            done = recorded(session, own_id)
            if done:
                # The commit succeeded, but its response was lost.
                return done
            locked = heads.lock(session, head.table_id, head.name)
            current = take_over_or_refuse(context, session, locked)
            register(context, session, own_id)
            info = own_info(context, own_id, ADOPT_TABLE, {"guard": "true"})
            draft = Draft(timestamp_after([current]), info, context.definition(session, current))
            members.append(record(context, session, current, draft, []))
            transactions.end(session, own_id, TransactionState.RATIFIED, draft.timestamp_ms)
        return members

    own = Intent(new_transaction_id(), Isolation.SNAPSHOT, message=None, attempts=1, changes=())
    (member,) = ratify_surely(context, own, once)
    publish_member(context, member)
    return member.head


def _guard(context: LakeContext, head: Head) -> Head:
    """Commit the guard like any commit to an open table, so that no foreign commit is lost."""
    transaction_id = new_transaction_id()
    with context.database.write() as session:
        register(context, session, transaction_id)

    def build(session: Session, current: Head) -> Draft:
        timestamp = timestamp_after([current])
        info = own_info(context, transaction_id, ADOPT_TABLE, {"guard": "true"})
        before = context.definition(session, current)
        heads.set_guarded(session, current.table_id, guarded=True)
        definition = format_of(head).guarded(before, current.version + 1, timestamp)
        return Draft(timestamp, info, definition, redefines=True)

    member = commit_open(context, (transaction_id, None), head, build)
    checkpoint_if_due(context, member)
    return replace(member.head, guarded=True)
