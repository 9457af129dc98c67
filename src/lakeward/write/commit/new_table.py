"""New tables: their heads, their locations in the warehouse and their first versions."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace

from lakeward.context import LakeContext
from lakeward.errors import AlreadyExists
from lakeward.formats.base import Ratified
from lakeward.formats.registry import FORMATS, format_named, publishers
from lakeward.log import audit, heads, positions, transactions
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
from lakeward.write.commit.record import Draft, record
from lakeward.write.stage.checks import check_columns


def new_head(
    context: LakeContext,
    session: Session,
    name: TableName,
    format: str,  # noqa: A002  the name users know
    *,
    guard: bool,
) -> Head:
    """Return the head of a table that has no version yet.

    Raises `AlreadyExists` if a table that is not in the lake has files at its location.
    """
    return Head(
        table_id=0,
        uuid=str(uuid.uuid4()),
        name=name,
        format=format,
        location=_location(context, session, name),
        guarded=guard or format_named(format).always_guarded,
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

    `note` is called with the inserted head before any version is recorded. If version 0 cannot have
    files in one of the table's formats, it is recorded empty, in a separate transaction, and
    version 1 adds the files. Raises `AlreadyExists` if the name or the location is taken.
    """
    check_columns(new, context.governed(session, new, draft.definition))
    head = replace(new, table_id=heads.insert(session, new, draft.timestamp_ms))
    if note is not None:
        note(session, head)
    later = bool(draft.added) and any(p.begins_empty for p in publishers(head))
    if later:
        head = _record_empty(context, session, head, draft, metadata_files)
    first = replace(draft, redefines=not later)
    return record(context, session, head, first, metadata_files)


def _record_empty(
    context: LakeContext, session: Session, head: Head, draft: Draft, metadata_files: list[str]
) -> Head:
    """Record an empty version 0 just before a draft's version; return the locked head."""
    own_id = new_transaction_id()
    register(context, session, own_id)
    info = own_info(context, own_id, "CREATE TABLE", creation_parameters(draft.definition))
    at_ms = draft.timestamp_ms - 1
    empty = Draft(at_ms, info, draft.definition, redefines=True, position=positions.NOWHERE)
    record(context, session, head, empty, metadata_files)
    transactions.end(session, own_id, TransactionState.RATIFIED, at_ms)
    return heads.lock(session, head.table_id, head.name)


def register(
    context: LakeContext, session: Session, transaction_id: str, message: str | None = None
) -> None:
    """Register a transaction that the lake itself starts and ends in the same session."""
    transactions.register(
        session,
        context.database.clock_ms(session),
        transaction_id=transaction_id,
        actor=context.actor,
        isolation=Isolation.SNAPSHOT.value,
        message=message,
    )


def own_info(
    context: LakeContext, transaction_id: str, operation: str, parameters: Mapping[str, str]
) -> CommitInfo:
    """Return the `CommitInfo` of a commit that the lake makes by itself."""
    return CommitInfo(
        transaction_id=transaction_id,
        operation=operation,
        parameters=parameters,
        actor=context.actor,
        engine=context.engine,
    )


def creation_parameters(definition: Definition) -> dict[str, str]:
    """Return the parameters of a table's creation, for its history."""
    return {"partitionBy": ",".join(definition.partition_names)}


def _location(context: LakeContext, session: Session, name: TableName) -> str:
    """Return a directory with the table's name, or a new one if another table is there.

    Raises `AlreadyExists` if a table that is not in the lake is there.
    """
    token = secrets.token_hex(4)
    plain = f"{name.namespace}/{name.name}" if name.namespace else name.name
    choices = [plain, f"{plain}-{token}", f"{name.namespace}-{token}/{name.name}"]
    free = next(p for p in choices if heads.overlapping(session, p) is None)
    if free != plain:
        return free
    shown = (f.occupies(context.storage, plain) for f in FORMATS.values())
    there = next((what for what in shown if what is not None), None)
    if there is not None:
        place = context.storage.uri(plain)
        what = f"There is a table at {place} that the lake does not know: {there}."
        raise AlreadyExists(what, hint="Adopt it, or choose another name.", table=str(name))
    return plain
