"""A new table entered into the lake: its head, its first version, its place in the warehouse."""

from __future__ import annotations

import logging
import secrets
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from lakeward.errors import AlreadyExists, LakewardError
from lakeward.formats.delta.publication import LOG_DIRECTORY, commit_path
from lakeward.formats.iceberg.newest import Candidates
from lakeward.log import audit, heads, transactions
from lakeward.log.database import Session
from lakeward.model.clock import now_ms
from lakeward.model.commit import (
    Commit,
    CommitInfo,
    Head,
    Isolation,
    TransactionState,
    new_transaction_id,
)
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile
from lakeward.model.names import TableName
from lakeward.read.parts import Parts
from lakeward.write import iceberg
from lakeward.write.outcome import ratify_surely, recorded
from lakeward.write.publish import publish_member
from lakeward.write.ratify import Intent
from lakeward.write.record import Ratified, insert

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a new table begins with.

    Attributes:
        operation: As history shows it.
        parameters: Of the operation; how it is partitioned unless given.
        files: Its first files.
        note: Called with the session and the new table's head before anything is committed.
    """

    operation: str = "CREATE TABLE"
    parameters: Mapping[str, str] | None = None
    files: tuple[DataFile, ...] = ()
    note: Callable[[Session, Head], None] = lambda _session, _head: None


def make(
    parts: Parts,
    name: TableName,
    format: str,  # noqa: A002  the name users know
    definition: Definition,
    *,
    guard: bool,
    begin: Beginning | None = None,
) -> Head:
    """Make a table of a definition, with the files that it begins with.

    Raises:
        AlreadyExists: The name is taken, or a table lies where this one would.
        StorageError: The warehouse cannot be written; nothing was made.
        OutcomeUnknown: The store stayed silent. Ask `lake.outcome` by the error's transaction id.
    """
    first = begin or Beginning()

    def once(parts: Parts, intent: Intent) -> list[Ratified]:
        return _ratify(
            parts, intent.transaction_id, name, format, definition, guard=guard, begin=first
        )

    intent = Intent(new_transaction_id(), Isolation.SNAPSHOT, message=None, attempts=1, changes=())
    (member,) = ratify_surely(parts, intent, once)
    try:
        publish_member(parts, member)
    except LakewardError as error:
        # The table stands; whoever opens the lake next publishes it.
        _LOG.warning("Table %s is made and not yet published: %s", name, error)
    return member.head


def _ratify(
    parts: Parts,
    transaction_id: str,
    name: TableName,
    format: str,  # noqa: A002  the name users know
    definition: Definition,
    *,
    guard: bool,
    begin: Beginning,
) -> list[Ratified]:
    with parts.database.write() as session:
        parts.database.lock_schema(session)
        done = recorded(session, transaction_id)
        if done:
            # It happened, and the answer was lost.
            return done
        now = now_ms()
        is_iceberg = format == iceberg.FORMAT
        # Iceberg has no snapshot in a table's first document, so files come with the next version.
        later = bool(begin.files) and is_iceberg
        own_id = new_transaction_id() if later else transaction_id
        _register(parts, session, own_id)
        new = Head(
            table_id=0,
            uuid=str(uuid.uuid4()),
            name=name,
            format=format,
            location=_location(parts, session, name),
            # Whoever writes an Iceberg table moves a pointer in our own store.
            guarded=guard or format == iceberg.FORMAT,
            drift="adopt",
            version=-1,
            timestamp_ms=0,
            definition_id=-1,
            published=-1,
            audit_seq=0,
            audit_hash=audit.GENESIS,
        )
        head = replace(new, table_id=heads.insert(session, new, now))
        definition = replace(definition, created_ms=now)
        commit = Commit(
            version=0,
            timestamp_ms=now,
            info=CommitInfo(
                transaction_id=own_id,
                operation="CREATE TABLE" if later else begin.operation,
                parameters=_told(definition) if later else begin.parameters or _told(definition),
                actor=parts.actor,
                engine=parts.engine,
            ),
            added=() if later else begin.files,
            definition=definition,
        )
        begin.note(session, head)
        if is_iceberg:
            head = iceberg.begin(parts, session, head, definition, commit)
        else:
            parts.storage.make_directory(f"{new.location}/{LOG_DIRECTORY}")
        member = Ratified(
            replace(head, version=0, timestamp_ms=now, definition_id=0), commit, definition
        )
        insert(session, member, head)
        if is_iceberg:
            heads.set_published(session, head.table_id, 0)
        transactions.end(session, own_id, TransactionState.RATIFIED, now)
        if later:
            member = _add_files(parts, session, member, transaction_id, begin)
    return [member]


def _add_files(
    parts: Parts, session: Session, made: Ratified, transaction_id: str, begin: Beginning
) -> Ratified:
    """The first files of an Iceberg table that was made in the same session."""
    _register(parts, session, transaction_id)
    head = heads.lock(session, made.head.table_id, made.head.name)
    now = head.timestamp_ms + 1
    info = replace(
        made.commit.info,
        transaction_id=transaction_id,
        operation=begin.operation,
        parameters=begin.parameters or {},
    )
    commit = Commit(version=1, timestamp_ms=now, info=info, added=begin.files)
    advanced = replace(head, version=1, timestamp_ms=now)
    member = iceberg.extend(parts, session, Ratified(advanced, commit, made.definition), aside=[])
    insert(session, member, head)
    transactions.end(session, transaction_id, TransactionState.RATIFIED, now)
    return member


def _register(parts: Parts, session: Session, transaction_id: str) -> None:
    transactions.register(
        session,
        parts.database.clock_ms(session),
        transaction_id=transaction_id,
        actor=parts.actor,
        isolation=Isolation.SNAPSHOT.value,
        message=None,
    )


def _told(definition: Definition) -> dict[str, str]:
    return {"partitionBy": ",".join(definition.partition_names)}


def _location(parts: Parts, session: Session, name: TableName) -> str:
    """A directory of the table's name, or one beside it where another table has its files."""
    token = secrets.token_hex(4)
    plain = f"{name.namespace}/{name.name}" if name.namespace else name.name
    choices = [plain, f"{plain}-{token}", f"{name.namespace}-{token}/{name.name}"]
    free = next(p for p in choices if heads.overlapping(session, p) is None)
    if free != plain:
        return free
    there = _there(parts, plain)
    if there is not None:
        place = parts.storage.uri(plain)
        what = f"There is a table at {place} that the lake does not know: {there}."
        raise AlreadyExists(what, hint="Adopt it, or choose another name.", table=str(name))
    return plain


def _there(parts: Parts, location: str) -> str | None:
    """What shows that a table lies in a directory."""
    if parts.storage.exists(commit_path(location, 0)) or any(
        True for _ in parts.storage.listing(f"{location}/{LOG_DIRECTORY}")
    ):
        return "a Delta log"
    found = Candidates.at(parts.storage, location)
    return "Iceberg metadata" if found.names and not found.are_litter() else None
