"""Commits of Iceberg REST clients whose own metadata documents become those of the tables.

These commits change a table's definition or its refs, or delete rows by delete files, none of which
the lake writes itself. All tables of the commit are recorded in one database transaction, which
also updates their pointers and inserts the tables that the commit creates.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lakeward.context import LakeContext
from lakeward.errors import Conflict, InvalidInput, UnsupportedFeature
from lakeward.formats.base import Ratified
from lakeward.formats.iceberg import metadata
from lakeward.formats.iceberg.document import METADATA_DIRECTORY, Document
from lakeward.formats.iceberg.history import read_drift
from lakeward.formats.iceberg.listing import ManifestReader
from lakeward.formats.iceberg.publication import metadata_name
from lakeward.formats.iceberg.requests import TableCommit
from lakeward.formats.registry import format_of
from lakeward.log import catalog, commits, heads, positions, tags, transactions
from lakeward.log.database import Session
from lakeward.model.commit import Head, Isolation, TransactionState
from lakeward.model.definition import Definition
from lakeward.model.history import ForeignActions
from lakeward.model.locks import LockMode
from lakeward.model.names import TableName
from lakeward.model.steps import reach
from lakeward.read.retention import retention
from lakeward.write.branch.remote import (
    Asked,
    blaming_client,
    blaming_files,
    check_new_files,
    inside,
)
from lakeward.write.branch.remote_checked import check_claims, unknown
from lakeward.write.branch.remote_creation import Creation, prepare_creation
from lakeward.write.branch.remote_rows import check_allowed, check_present, check_required
from lakeward.write.commit import once as keys
from lakeward.write.commit.conflict import check_locks
from lakeward.write.commit.outcome import ratify_surely, recorded
from lakeward.write.commit.publications import Author, publish_member, record_foreign
from lakeward.write.commit.ratify import Intent
from lakeward.write.transaction import announcing
from lakeward.write.transaction.result import CommitResult


@dataclass(frozen=True, slots=True)
class _Swap:
    """A table with its current document and its next one, which is written already."""

    head: Head
    before: Document
    after: Document


def swap(
    context: LakeContext,
    transaction_id: str,
    wanted: Sequence[Asked],
    what: str,
    *,
    trusted: bool,
    new: Sequence[tuple[TableName, Document]] = (),
) -> CommitResult:
    """Commit the documents of clients, of one or several tables, atomically and once.

    `what` identifies the client's request, and is recorded with the transaction's id. `new` are the
    first documents of tables that the commit creates.

    Raises:
        Conflict: Another writer committed meanwhile.
        AlreadyExists: There is a table or a view with the name of a new table.
        UnsupportedFeature: The lake could not read a table after the commit, rows of an append-only
            table would be removed, or a table has constraints that new rows would have to be
            checked against.
        InvalidInput: The commit refers to locations or refs that it may not use, or adds files
            that are missing or vacuumed, or not what its manifests claim.
        ConstraintViolation: A row has no value in a required column.
    """
    begun = time.perf_counter()
    swaps = [_written(context, asked, trusted=trusted) for asked in wanted]
    creations = [prepare_creation(context, *one, trusted=trusted) for one in new]
    reach("iceberg.prepared")

    def once(context: LakeContext, intent: Intent) -> list[Ratified]:
        return _ratify(context, intent.transaction_id, swaps, creations, what)

    intent = Intent(transaction_id, Isolation.SNAPSHOT, message=None, attempts=1, changes=())
    done = ratify_surely(context, intent, once)
    announcing.ratified(context, done, time.perf_counter() - begun)
    for member in done:
        publish_member(context, member)
    for one in swaps:
        metadata.forget(context, one.head, one.after)
    result = CommitResult(transaction_id, {str(m.head.name): m.commit.version for m in done})
    announcing.committed(context, result, done, time.perf_counter() - begun)
    reach("commit.acknowledged")
    return result


def _written(context: LakeContext, asked: Asked, *, trusted: bool) -> _Swap:
    """Check a commit, and write the document that results from it."""
    head, commit, before, newest = asked.head, asked.commit, asked.before, asked.newest
    with context.database.read() as session:
        definition = context.definition(session, head)
        own_tags = tags.names_of(session, head.table_id)
    taken = next((name for name in commit.refs if name in own_tags), None)
    if taken is not None:
        what = f"{taken!r} is a tag of the lake, which only the lake moves and removes."
        raise InvalidInput(what, hint="Use `lakeward tag`.", table=str(head.name))
    _check_location(context, head, newest)
    _check_expired(context, head, commit, before)
    read = inside(context, head, before)
    known = ManifestReader(read, "").manifests(before.current)
    check_new_files(
        context,
        head.name,
        head.location,
        read,
        newest,
        known,
        before.all_snapshots(),
        anywhere=trusted,
    )
    found = _commits_between(context, head, definition, before, newest)
    check_allowed(head, definition, found)
    with context.database.read() as session:
        check_present(context, session, head, found)
    with blaming_files(head.name):
        new = unknown(context, head, [f for one in found for f in one.added])
        check_claims(context, head.name, head.location, new)
    check_required(context, head, definition, found)
    place = metadata_name(context.storage.uri(head.location), before.location)
    document = replace(newest, location=place)
    name = place.rpartition("/")[2]
    context.storage.put(f"{head.location}/{METADATA_DIRECTORY}/{name}", document.encode())
    return _Swap(head, before, document)


def _ratify(
    context: LakeContext,
    transaction_id: str,
    swaps: Sequence[_Swap],
    creations: Sequence[Creation],
    what: str,
) -> list[Ratified]:
    with context.database.write() as session:
        context.check_bound(session)
        if transactions.lock(session, transaction_id) is TransactionState.RATIFIED:
            # The commit succeeded, but its response was lost.
            return recorded(session, transaction_id)
        if keys.was_made(context, session, transaction_id, what):
            return []
        if creations:
            context.database.lock_schema(session)
        locked = [
            (heads.lock(session, one.head.table_id, one.head.name), one)
            for one in sorted(swaps, key=lambda one: one.head.table_id)
        ]
        check_locks(context, session, [(head, LockMode.WRITE) for head, _ in locked])
        reach("ratify.locked")
        moved = [(head, one, _moved(context, session, head, one)) for head, one in locked]
        if creations or any(found for _, _, found in moved):
            # Otherwise only refs or statistics changed, of which the log has no versions.
            keys.begin_own(context, session, transaction_id)
        keys.record(context, session, transaction_id, what)
        # A cut by time never splits a transaction, so its tables share its time.
        times = [found[-1].timestamp_ms for _, _, found in moved if found]
        at_ms = max([*times, *(new.timestamp_ms for new in creations)], default=0)
        # Versions of new tables before the newest one are no part of the transaction.
        *earlier, last = positions.take_many(session, sum(n.earlier for n in creations) + 1)
        author = Author(context.actor, transaction_id, last, len(swaps) + len(creations))
        for head, one, found in moved:
            _record(context, session, author, head, one.after.location, found, at_ms)
        for new in creations:
            places = [*(earlier.pop(0) for _ in range(new.earlier)), last]
            new.insert(context, session, author, at_ms, places)
        keys.end_own(context, session, transaction_id)
        done = recorded(session, transaction_id)
        reach("ratify.inserted")
    reach("ratify.committed")
    return done


def _moved(context: LakeContext, session: Session, head: Head, one: _Swap) -> list[ForeignActions]:
    """Set a table's pointer to its new document; return the commits that the document adds.

    Raises `Conflict` if the pointer has changed, and the errors of `check_allowed` and
    `check_present`.
    """
    old, new = one.before.location, one.after.location
    if head.pointer != old or not catalog.swap(session, head.name, old, new):
        what = f"Somebody else committed to table {head.name} meanwhile."
        raise Conflict(what, hint="Load the table, and commit again.", table=str(head.name))
    reach("iceberg.swapped")
    definition = context.definition(session, head)
    found = _commits_between(context, head, definition, one.before, one.after)
    # A policy may have been set, or a vacuum run, since the commit was checked.
    check_allowed(head, definition, found)
    check_present(context, session, head, found)
    return found


def _commits_between(
    context: LakeContext, head: Head, definition: Definition, before: Document, after: Document
) -> list[ForeignActions]:
    """Return the commits that a document of a client adds to that of the table's head."""
    source = ManifestReader(metadata.reader(context), context.storage.uri(head.location))
    base = {"version": head.version, "timestamp_ms": head.timestamp_ms}
    with blaming_client(head.name):
        return read_drift(after, before, source, definition, **base)


def _record(
    context: LakeContext,
    session: Session,
    author: Author,
    head: Head,
    pointer: str,
    found: Sequence[ForeignActions],
    at_ms: int,
) -> None:
    """Record the commits of a table's new document."""
    definition = context.definition(session, head)
    for actions in found[:-1]:
        by = Author(author.actor)
        head, definition = record_foreign(context, session, by, head, definition, actions)
    # A transaction has one version of each table: the last of several.
    for actions in found[-1:]:
        last = replace(actions, timestamp_ms=at_ms)
        head, definition = record_foreign(context, session, author, head, definition, last)
    heads.advance(session, replace(head, pointer=pointer))
    heads.set_published(session, head.table_id, head.version)


def _check_expired(context: LakeContext, head: Head, commit: TableCommit, before: Document) -> None:
    """Raise `UnsupportedFeature` if snapshots of promised or held versions would be expired."""
    if not commit.expired:
        return
    with context.database.read() as session:
        promise = retention(context, session, head)
        oldest = commits.one(session, head.table_id, promise.promised_version)
    held = {format_of(head).snapshot_id(context, head, v) for v in promise.held_versions}
    since_ms = 0 if oldest is None else oldest.timestamp_ms
    found = before.all_snapshots()
    for number in commit.expired:
        if number in held or (number in found and found[number]["timestamp-ms"] >= since_ms):
            what = f"Snapshot {number} of table {head.name} is a version that the lake promises."
            hint = "The lake expires snapshots itself, by `lakeward expire` and `lakeward vacuum`."
            raise UnsupportedFeature(what, hint=hint, table=str(head.name))


def _check_location(context: LakeContext, head: Head, newest: Document) -> None:
    """Raise `InvalidInput` if a commit changes the table's location."""
    path = context.storage.path_of
    root, place = context.storage.uri(head.location), str(newest.body.get("location"))
    if not f"{path(place)}/".startswith(f"{path(root)}/"):
        what = f"The commit moves table {head.name} to a place outside of its directory."
        raise InvalidInput(what, table=str(head.name))
