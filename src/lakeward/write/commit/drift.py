"""Drift: commits that others made past the log.

On a Delta table that is not guarded the published log decides, put-if-absent, who gets a version.
On an Iceberg table the catalog's pointer decides, which lies in our own store. What others
committed is taken into our log, in order, before anything is read from or written to the table; or
it is refused, where a Delta table was adopted so. A commit of ours that was published on such a
table and then lost its database transaction to a crash is found in the same way, and known by its
id.
"""

from __future__ import annotations

from dataclasses import replace

from lakeward.context import LakeContext
from lakeward.errors import ForeignCommit, LakewardError
from lakeward.formats.delta.history import read_commit
from lakeward.formats.delta.protocol import is_guarded
from lakeward.formats.delta.publication import commit_path
from lakeward.formats.delta.values import vector_id as delta_vector_id
from lakeward.formats.iceberg.listing import vector_id as iceberg_vector_id
from lakeward.log import audit, catalog, files, heads, transactions
from lakeward.log.database import Session
from lakeward.model.clock import now_ms
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.file import LoggedFile
from lakeward.model.history import ForeignActions
from lakeward.model.names import TableName
from lakeward.write.commit import iceberg
from lakeward.write.commit.record import Draft, record


def has_drifted(context: LakeContext, head: Head) -> bool:
    """Whether somebody else's commit follows the newest one we know."""
    if head.format == iceberg.FORMAT:
        with context.database.read() as session:
            return iceberg.has_drifted(session, head)
    return not head.guarded and context.storage.exists(commit_path(head.location, head.version + 1))


def follow(context: LakeContext, head: Head) -> Head:
    """Take over what others committed to a table, if the table allows it; its newest head."""
    if not has_drifted(context, head):
        return head
    if head.drift == "refuse":
        with context.database.read() as session:
            if not _is_taken(context, session, head):
                return head
    with context.database.write() as session:
        return take_over(context, session, heads.lock(session, head.table_id, head.name))


def follow_all(context: LakeContext) -> None:
    """The same for every table that is not guarded."""
    with context.database.read() as session:
        open_tables = [*heads.unguarded(session), *heads.moved(session)]
    for head in open_tables:
        follow(context, head)


def current(context: LakeContext, name: TableName) -> Head:
    """A table's newest head, what others committed included.

    Raises:
        TableNotFound: There is no such table.
    """
    with context.database.read() as session:
        head = heads.get(session, name)
        known = not may_have_drifted(session, head)
    return head if known else follow(context, head)


def may_have_drifted(session: Session, head: Head) -> bool:
    """Whether a table must be followed before it is used, as far as the store tells."""
    if head.format == iceberg.FORMAT:
        return iceberg.has_drifted(session, head)
    return not head.guarded


def settled(context: LakeContext, session: Session, head: Head) -> Head:
    """A locked head, after what others did to its table past the log was taken over.

    A guarded Delta table is written through the log alone; an open one is settled elsewhere.

    Raises:
        ForeignCommit: The table refuses drift, or another table is in its place.
        CorruptTable: A foreign commit cannot be understood.
    """
    if head.format != iceberg.FORMAT:
        return head
    if head.drift == "refuse" and iceberg.has_drifted(session, head):
        iceberg.check_entered(session, head)
        what = f"Somebody else committed to table {head.name}, which refuses it."
        hint = "Drop it and adopt it anew to take that commit."
        raise ForeignCommit(what, hint=hint, table=str(head.name), version=head.version + 1)
    return take_over(context, session, head)


def adopt_drift(context: LakeContext, session: Session, head: Head) -> Head:
    """Insert every foreign commit that follows a locked head; the head after them.

    Raises:
        ForeignCommit: The table refuses drift.
        CorruptTable: A foreign commit cannot be understood.
    """
    head = take_over(context, session, head)
    if head.drift == "refuse" and has_drifted(context, head):
        path = commit_path(head.location, head.version + 1)
        what = f"Somebody else committed version {head.version + 1} of {head.name}."
        hint = "It refuses drift: drop it and adopt it anew to take that, or move the file away."
        raise ForeignCommit(
            what, hint=hint, table=str(head.name), version=head.version + 1, path=path
        )
    return head


def take_over(context: LakeContext, session: Session, head: Head) -> Head:
    """The same, but on a table that refuses drift only what is ours is taken, and nothing raised.

    Raises:
        CorruptTable: A foreign commit cannot be understood.
    """
    if head.format == iceberg.FORMAT:
        return _follow_pointer(context, session, head)
    if not has_drifted(context, head):
        return head
    definition = context.definition(session, head)
    while (found := _next(context, session, head, definition)) is not None:
        head, definition = _adopt_one(context, session, head, definition, found)
    return head


def _follow_pointer(context: LakeContext, session: Session, head: Head) -> Head:
    pointer = catalog.lock(session, head.name)
    if pointer == head.pointer:
        return head
    if pointer is None:
        raise iceberg.not_entered(session, head)
    definition = context.definition(session, head)
    document, found = iceberg.foreign(context, session, head, definition, pointer)
    for actions in found:
        head, definition = _adopt_one(context, session, head, definition, actions)
    head = replace(head, pointer=document.location)
    heads.advance(session, head)
    heads.set_published(session, head.table_id, head.version)
    return head


def _is_taken(context: LakeContext, session: Session, head: Head) -> bool:
    """Whether something that others did to a table that refuses drift is taken after all."""
    if head.format == iceberg.FORMAT:
        iceberg.check_entered(session, head)
        return False
    return _next(context, session, head, context.definition(session, head)) is not None


def _next(
    context: LakeContext, session: Session, head: Head, definition: Definition
) -> ForeignActions | None:
    """The commit that follows a head, if there is one that may be taken over."""
    try:
        found = read_commit(
            context.storage,
            head.location,
            head.version + 1,
            definition,
            uuid=head.uuid,
            after_ms=head.timestamp_ms,
        )
    except LakewardError:
        if head.drift == "refuse":
            return None
        raise
    if found is None or head.drift != "refuse":
        return found
    ours = transactions.get(session, found.info.transaction_id) is not None
    return found if ours else None


def _adopt_one(
    context: LakeContext,
    session: Session,
    head: Head,
    definition: Definition,
    found: ForeignActions,
) -> tuple[Head, Definition]:
    after = found.definition or definition
    draft = Draft(
        timestamp_ms=found.timestamp_ms,
        info=found.info,
        definition=after,
        redefines=found.definition is not None,
        added=found.added,
        removed=tuple(_removed(session, head, found)),
        app_transactions=tuple(sorted(found.app_transactions, key=lambda a: a.app_id)),
        change_files=found.change_files,
    )
    if record(session, head, draft).commit.version != found.version:
        message = f"version {found.version} of {head.name} does not follow {head.version}"
        raise AssertionError(message)
    ours = transactions.found_published(session, found.info.transaction_id, now_ms())
    current = heads.lock(session, head.table_id, head.name)
    if not ours:
        current = audit.record(
            session,
            current,
            at_ms=now_ms(),
            actor=context.actor,
            action="ADOPT COMMIT",
            version=found.version,
        )
        heads.advance(session, current)
    if head.format != iceberg.FORMAT and is_guarded(after.protocol):
        heads.set_guarded(session, head.table_id, guarded=True)
        current = replace(current, guarded=True)
    return current, after


def _removed(session: Session, head: Head, found: ForeignActions) -> list[LoggedFile]:
    """The live files that the commit ends, those that it adds anew among them."""
    vector_id = iceberg_vector_id if head.format == iceberg.FORMAT else delta_vector_id
    again = [(f.path, vector_id(f.deletion_vector)) for f in found.added]
    gone: dict[tuple[int, int], LoggedFile] = {}
    for path, vector in dict.fromkeys((*found.removed, *again)):
        for live in files.live_at_path(session, head.table_id, path):
            if vector_id(live.file.deletion_vector) == vector:
                gone[live.added, live.ordinal] = live
    return [gone[key] for key in sorted(gone)]
