"""A table that is not in the log yet: its head, its place in the warehouse, and how it gets in."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable
from dataclasses import replace

from lakeward.context import LakeContext
from lakeward.errors import AlreadyExists
from lakeward.formats.delta.publication import LOG_DIRECTORY, commit_bytes, commit_path
from lakeward.formats.iceberg.newest import Candidates
from lakeward.log import audit, heads, transactions
from lakeward.log.database import Session
from lakeward.model.commit import (
    CommitInfo,
    Head,
    Isolation,
    TransactionState,
    new_transaction_id,
)
from lakeward.model.definition import Definition
from lakeward.model.names import TableName
from lakeward.write.commit import iceberg
from lakeward.write.commit.record import Draft, Ratified, WriteCommit, record


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


def begin_table(
    context: LakeContext,
    session: Session,
    new: Head,
    draft: Draft,
    metadata_files: list[str],
    note: Callable[[Session, Head], None] | None = None,
) -> Ratified:
    """Insert a new table's head and record its first version.

    Iceberg has no snapshot in a table's first document, so version 0 of a table that begins with
    files is empty, in a transaction of its own, and the files come with version 1.

    Args:
        context: The lake's.
        session: The ratifying one.
        new: The head, as `new_head` gives it.
        draft: The first version.
        metadata_files: Gets the names of metadata files that are written.
        note: Called with the session and the inserted head before any version is recorded.

    Raises:
        AlreadyExists: The name, or the location, is taken.
        StorageError: The warehouse cannot be written.
    """
    head = replace(new, table_id=heads.insert(session, new, draft.timestamp_ms))
    if note is not None:
        note(session, head)
    write = writer(context, session, metadata_files)
    if draft.added and head.format == iceberg.FORMAT:
        head = _record_empty(context, session, head, draft, write)
        return record(session, head, replace(draft, redefines=False), write)
    return record(session, head, replace(draft, redefines=True), write)


def writer(context: LakeContext, session: Session, metadata_files: list[str]) -> WriteCommit:
    """Return the function that writes a commit's files while the commit is recorded."""

    def write(member: Ratified) -> Ratified:
        head, commit = member.head, member.commit
        if head.format == iceberg.FORMAT:
            if commit.version:
                return iceberg.extend(context, session, member, metadata_files)
            entered = iceberg.begin(context, session, head, member.definition, commit)
            heads.set_published(session, head.table_id, 0)
            return Ratified(entered, commit, member.definition)
        if commit.version == 0:
            context.storage.make_directory(f"{head.location}/{LOG_DIRECTORY}")
        path = commit_path(head.location, commit.version)
        prepared = context.storage.prepare(path, commit_bytes(head, commit, member.definition))
        return Ratified(head, commit, member.definition, prepared)

    return write


def _record_empty(
    context: LakeContext, session: Session, head: Head, draft: Draft, write: WriteCommit
) -> Head:
    """Record an empty version 0 just before a draft; return the locked head."""
    own_id = new_transaction_id()
    register(context, session, own_id)
    info = CommitInfo(
        transaction_id=own_id,
        operation="CREATE TABLE",
        parameters=told(draft.definition),
        actor=context.actor,
        engine=context.engine,
    )
    at_ms = draft.timestamp_ms - 1
    record(session, head, Draft(at_ms, info, draft.definition, redefines=True), write)
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
