"""The Iceberg side of a commit: metadata prepared aside, and the pointer moved as it is ratified.

All of it happens while the table's head and its row in the catalog are locked, so the document that
a commit continues is the newest, and moving the pointer cannot fail. Until the database transaction
commits, nothing reaches the files; if it does not, they are litter that names its transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final

from lakeward.context import LakeContext
from lakeward.errors import CorruptTable, FileMissing, ForeignCommit
from lakeward.formats.iceberg.definition import new_document
from lakeward.formats.iceberg.document import METADATA_DIRECTORY, Document
from lakeward.formats.iceberg.history import read_anew, read_drift
from lakeward.formats.iceberg.listing import ManifestReader
from lakeward.formats.iceberg.manifests import read_entries, read_list
from lakeward.formats.iceberg.memory import Memory
from lakeward.formats.iceberg.publication import (
    Next,
    Place,
    first_files,
    following,
)
from lakeward.formats.iceberg.summary import COUNTED, SEQUENCE, SNAPSHOT_ID
from lakeward.log import catalog, commits, files, heads
from lakeward.log.codec import info_text, loads
from lakeward.log.database import Session
from lakeward.model.commit import Commit, Head
from lakeward.model.definition import Definition
from lakeward.model.history import ForeignActions
from lakeward.model.steps import reach
from lakeward.write.commit.record import Ratified

FORMAT: Final = "iceberg"


def begin(
    context: LakeContext, session: Session, head: Head, definition: Definition, commit: Commit
) -> Head:
    """Publish a new table's first document and enter it into the catalog; its head.

    Args:
        context: The lake's.
        session: The ratifying one.
        head: The new table's.
        definition: Its first.
        commit: Version 0, which has no snapshot to tell of it.
    """
    place, info = place_of(context, head), commit.info
    told = {
        "transaction_id": info.transaction_id,
        "parameters": info.parameters,
        "actor": info.actor,
        "engine": info.engine,
    }
    document = new_document(
        head, definition, place.location, at_ms=commit.timestamp_ms, created_by=told
    )
    made = first_files(document, place)
    catalog.insert(session, head.name, made.document.location)
    context.storage.make_directory(f"{head.location}/{METADATA_DIRECTORY}")
    _put(context, made, [])
    reach("iceberg.swapped")
    return replace(head, pointer=made.document.location)


def extend(context: LakeContext, session: Session, member: Ratified, aside: list[str]) -> Ratified:
    """Write a commit's metadata and move the pointer to it; the member as it is to be recorded.

    Args:
        context: The lake's.
        session: The ratifying one, which holds the locks.
        member: What shall be true.
        aside: Gets the names of the files written.

    Raises:
        StorageError: The metadata could not be written.
    """
    head, commit = member.head, member.commit
    document = document_of(context, head)
    place = place_of(context, head)
    # The snapshot counts files and bytes by itself.
    more = {k: v for k, v in commit.info.metrics.items() if k not in COUNTED}
    told = loads(info_text(replace(commit.info, metrics=more, extra=None)))
    made = following(
        document,
        manifests_of(context, document),
        place,
        head,
        commit,
        member.definition,
        info={"operation": commit.info.operation, "actor": commit.info.actor, **told},
        sequences=_sequences(session, head, commit),
    )
    _put(context, made, aside)
    if not catalog.swap(session, head.name, document.location, made.document.location):
        # The row is locked, and it was read under the lock.
        message = f"the pointer of {head.name} moved while it was locked"
        raise AssertionError(message)
    heads.set_published(session, head.table_id, commit.version)
    reach("iceberg.swapped")
    context.cache(Memory).renew(document, made.document, made.manifests, made.entries)
    return Ratified(
        replace(head, pointer=made.document.location),
        replace(commit, info=replace(commit.info, extra=_told(made.document, commit))),
        member.definition,
    )


def has_drifted(session: Session, head: Head) -> bool:
    """Whether somebody else moved the table's pointer."""
    return catalog.pointer(session, head.name) != head.pointer


def leave(context: LakeContext, session: Session, head: Head) -> None:
    """Take a table out of the catalog, unless somebody entered another one under its name."""
    pointer = catalog.lock(session, head.name)
    if pointer is None or (pointer != head.pointer and not is_of(context, head, pointer)):
        return
    catalog.delete(session, head.name)


def check_entered(session: Session, head: Head) -> None:
    """Refuse a table that somebody took out of the catalog.

    Raises:
        CorruptTable: It has no row there.
    """
    if catalog.pointer(session, head.name) is None:
        raise not_entered(session, head)


def not_entered(session: Session, head: Head) -> CorruptTable:
    """The error that the catalog has no row of the table's name."""
    what = f"Somebody took table {head.name} out of the lake's Iceberg catalog."
    others = catalog.pointing_to(session, str(head.pointer))
    if others:
        what = f"Somebody renamed table {head.name} to {others[0]} in the lake's Iceberg catalog."
    hint = "Its files and history are safe: `lakeward doctor --fix` enters it again."
    return CorruptTable(what, hint=hint, table=str(head.name))


def foreign(
    context: LakeContext, session: Session, head: Head, definition: Definition, pointer: str
) -> tuple[Document, list[ForeignActions]]:
    """What others committed since the head, and the document that it led to.

    Raises:
        ForeignCommit: The catalog has another table under this name.
        CorruptTable: Their metadata cannot be understood.
        UnsupportedFeature: It asks for what the lake does not know.
    """
    if not is_of(context, head, pointer):
        what = f"Somebody put another table in the place of {head.name} in the Iceberg catalog."
        hint = "Drop it from the lake and adopt the new one, or move one of them away."
        raise ForeignCommit(what, hint=hint, table=str(head.name), path=pointer)
    place = place_of(context, head)
    document = context.cache(Memory).document(pointer, place.read)
    base = {"version": head.version, "timestamp_ms": head.timestamp_ms}
    try:
        known = document_of(context, head)
        source = ManifestReader(place.read, place.location)
        return document, read_drift(document, known, source, definition, **base)
    except CorruptTable:
        # Whoever expires snapshots deletes what led to them; the log knows where it left off.
        source = ManifestReader(place.read, place.location)
        live = [f.file for f in files.at(session, head.table_id, head.version)]
        return document, read_anew(document, source, definition, live, **base)


def document_of(context: LakeContext, head: Head) -> Document:
    """The document that a head stands for."""
    if head.pointer is None:
        what = f"The log has no metadata document for table {head.name}."
        raise CorruptTable(what, hint="Run `lakeward doctor`.", table=str(head.name))
    return context.cache(Memory).document(head.pointer, place_of(context, head).read)


def manifests_of(context: LakeContext, document: Document) -> list[object]:
    """The manifests of a document's current snapshot."""
    if document.current is None:
        return []
    return context.cache(Memory).manifests(
        document.current["manifest-list"], lambda name: read_list(name, _read(context, name))
    )


def reader(context: LakeContext) -> Callable[[str], bytes]:
    """What reads metadata files by their full names."""
    return lambda name: _read(context, name)


def place_of(context: LakeContext, head: Head) -> Place:
    """Where a table is."""
    read = reader(context)

    def entries(manifest: Any) -> list[Any]:
        return context.cache(Memory).entries(
            manifest.manifest_path, lambda name: read_entries(manifest, read(name))
        )

    return Place(context.storage.uri(head.location), read, entries)


def is_of(context: LakeContext, head: Head, pointer: str) -> bool:
    """Whether a metadata document is the table's."""
    return context.cache(Memory).document(pointer, place_of(context, head).read).uuid in (
        "",
        head.uuid,
    )


def _read(context: LakeContext, name: str) -> bytes:
    try:
        return context.storage.read(context.storage.path_of(name))
    except FileMissing as error:
        what = f"The metadata file {name} is missing."
        hint = "If the lake was moved, run `lakeward relocate`. Otherwise ask the doctor."
        raise CorruptTable(what, hint=hint, path=name) from error


def _put(context: LakeContext, made: Next, aside: list[str]) -> None:
    aside.extend(name for name, _ in made.files)
    context.storage.create_all(made.files)
    reach("iceberg.prepared")


def _sequences(session: Session, head: Head, commit: Commit) -> dict[int, int | None]:
    return {v: _sequence(session, head, v) for v in _added_by(commit)}


def _added_by(commit: Commit) -> Iterable[int]:
    return {f.added for f in commit.removed}


def _sequence(session: Session, head: Head, version: int) -> int | None:
    found = commits.one(session, head.table_id, version)
    told = None if found is None else found.info.extra
    return None if told is None or commits_adopted(found) else told.get(SEQUENCE)


def commits_adopted(found: commits.LoggedCommit | None) -> bool:
    """Whether a version was made by others: its files may be older than itself."""
    return found is None or found.info.adopted


def _told(document: Document, commit: Commit) -> dict[str, object]:
    told: dict[str, object] = dict(commit.info.extra or {})
    if document.current is not None:
        told[SNAPSHOT_ID] = document.current["snapshot-id"]
        told[SEQUENCE] = document.current["sequence-number"]
    return told
