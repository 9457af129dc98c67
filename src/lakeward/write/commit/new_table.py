"""A table that is not in the log yet: its head, its place in the warehouse, and how it gets in."""

from __future__ import annotations

import secrets
import uuid
from dataclasses import replace

from lakeward.context import LakeContext
from lakeward.errors import AlreadyExists
from lakeward.formats.delta.publication import LOG_DIRECTORY, commit_path
from lakeward.formats.iceberg.newest import Candidates
from lakeward.log import audit, heads, transactions
from lakeward.log.database import Session
from lakeward.model.commit import (
    Commit,
    CommitInfo,
    Head,
    Isolation,
    TransactionState,
    new_transaction_id,
)
from lakeward.model.definition import Definition
from lakeward.model.names import TableName
from lakeward.write.commit import iceberg
from lakeward.write.commit.record import Ratified, insert


def new_head(
    context: LakeContext,
    session: Session,
    name: TableName,
    format: str,  # noqa: A002  the name users know
    *,
    guard: bool,
) -> Head:
    """The head of a table that has no version yet.

    Raises:
        AlreadyExists: A table lies where this one would.
    """
    return Head(
        table_id=0,
        uuid=str(uuid.uuid4()),
        name=name,
        format=format,
        location=_location(context, session, name),
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


def enter(context: LakeContext, session: Session, new: Head, now_ms: int) -> Head:
    """Insert a new table's head, and see that its log can be written.

    Raises:
        AlreadyExists: The name, or the location, is taken.
        StorageError: The warehouse cannot be written.
    """
    head = replace(new, table_id=heads.insert(session, new, now_ms))
    if new.format != iceberg.FORMAT:
        context.storage.make_directory(f"{new.location}/{LOG_DIRECTORY}")
    return head


def make_empty(
    context: LakeContext, session: Session, head: Head, definition: Definition, at_ms: int
) -> Head:
    """Version 0 of an Iceberg table, without rows: its first document has no snapshot.

    It is a transaction of its own within the session, so that the one that adds rows is told by a
    snapshot.
    """
    own_id = new_transaction_id()
    register(context, session, own_id)
    info = CommitInfo(
        transaction_id=own_id,
        operation="CREATE TABLE",
        parameters=told(definition),
        actor=context.actor,
        engine=context.engine,
    )
    commit = Commit(version=0, timestamp_ms=at_ms, info=info, definition=definition)
    entered = iceberg.begin(context, session, head, definition, commit)
    member = Ratified(
        replace(entered, version=0, timestamp_ms=at_ms, definition_id=0), commit, definition
    )
    insert(session, member, entered)
    heads.set_published(session, head.table_id, 0)
    transactions.end(session, own_id, TransactionState.RATIFIED, at_ms)
    return heads.lock(session, head.table_id, head.name)


def register(context: LakeContext, session: Session, transaction_id: str) -> None:
    """Register a transaction of the lake's own, which ends at once."""
    transactions.register(
        session,
        context.database.clock_ms(session),
        transaction_id=transaction_id,
        actor=context.actor,
        isolation=Isolation.SNAPSHOT.value,
        message=None,
    )


def told(definition: Definition) -> dict[str, str]:
    """What history shows of a table's making."""
    return {"partitionBy": ",".join(definition.partition_names)}


def _location(context: LakeContext, session: Session, name: TableName) -> str:
    """A directory of the table's name, or one beside it where another table has its files."""
    token = secrets.token_hex(4)
    plain = f"{name.namespace}/{name.name}" if name.namespace else name.name
    choices = [plain, f"{plain}-{token}", f"{name.namespace}-{token}/{name.name}"]
    free = next(p for p in choices if heads.overlapping(session, p) is None)
    if free != plain:
        return free
    there = _there(context, plain)
    if there is not None:
        place = context.storage.uri(plain)
        what = f"There is a table at {place} that the lake does not know: {there}."
        raise AlreadyExists(what, hint="Adopt it, or choose another name.", table=str(name))
    return plain


def _there(context: LakeContext, location: str) -> str | None:
    """What shows that a table lies in a directory."""
    if context.storage.exists(commit_path(location, 0)) or any(
        True for _ in context.storage.listing(f"{location}/{LOG_DIRECTORY}")
    ):
        return "a Delta log"
    found = Candidates.at(context.storage, location)
    return "Iceberg metadata" if found.names and not found.are_litter() else None
