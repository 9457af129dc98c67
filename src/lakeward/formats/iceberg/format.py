"""Implements the format contract for Iceberg: metadata files, and a pointer in the lake's catalog.

A commit holds locks on the table's head and its row in the catalog, so the document that it
continues is the newest, and updating the pointer cannot fail. Until the database transaction
commits, no reader finds the new files. If it does not commit, the files can be deleted; their names
have the transaction's id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from lakeward.context import LakeContext
from lakeward.errors import CorruptTable, ForeignCommit
from lakeward.formats.background import BackgroundWorker
from lakeward.formats.base import Format, Ratified, TakeOver
from lakeward.formats.iceberg import tagging
from lakeward.formats.iceberg.adopting import IcebergAdoption
from lakeward.formats.iceberg.altering import IcebergAlterations, with_former_fields
from lakeward.formats.iceberg.defining import IcebergDefinitions
from lakeward.formats.iceberg.definition import (
    check_writable,
    new_document,
)
from lakeward.formats.iceberg.deletes import DELETE_FILES
from lakeward.formats.iceberg.document import METADATA_DIRECTORY, Document
from lakeward.formats.iceberg.expiry import list_extra
from lakeward.formats.iceberg.foreign_refs import files_of_refs, foreign_refs
from lakeward.formats.iceberg.forgotten import forgotten_files
from lakeward.formats.iceberg.hints import document_number, publish_hint
from lakeward.formats.iceberg.history import read_anew, read_drift
from lakeward.formats.iceberg.light import LightIceberg
from lakeward.formats.iceberg.listing import ManifestReader, schemeless, vector_id
from lakeward.formats.iceberg.memory import Memory
from lakeward.formats.iceberg.metadata import (
    document_at,
    document_of,
    forget_documents,
    is_of,
    later_document,
    manifests_of,
    not_entered,
    place_of,
)
from lakeward.formats.iceberg.newest import Candidates
from lakeward.formats.iceberg.private import load_writers
from lakeward.formats.iceberg.publication import Next, first_files, following
from lakeward.formats.iceberg.restoring import returning
from lakeward.formats.iceberg.row_ids import row_ids
from lakeward.formats.iceberg.summary import ANCHOR, COUNTED, SEQUENCE, SNAPSHOT_ID, VERSION
from lakeward.formats.iceberg.taken_over import taken_over
from lakeward.log import branches, catalog, commits, files, heads
from lakeward.log.codec import info_text, loads
from lakeward.log.database import Session
from lakeward.model.commit import Commit, Head
from lakeward.model.definition import Definition
from lakeward.model.history import ForeignActions
from lakeward.model.row_ids import RowIds
from lakeward.model.steps import reach
from lakeward.storage.base import Storage


class IcebergFormat(LightIceberg, IcebergDefinitions, IcebergAlterations, IcebergAdoption, Format):
    """Apache Iceberg tables, whose catalog is part of the lake's store."""

    always_guarded: ClassVar[bool] = True
    begins_empty: ClassVar[bool] = True
    has_catalog: ClassVar[bool] = True
    metadata_directory: ClassVar[str] = METADATA_DIRECTORY
    columns_by_id: ClassVar[bool] = True
    publishes_last: ClassVar[bool] = True

    def check_writable(self, definition: Definition, table: str) -> None:
        """Check the format version and the types of columns, and load pyiceberg.

        Loaded later, it would hold up other writers: a commit has the locks when it writes.
        """
        check_writable(definition, table)
        load_writers()

    def restored(self, current: Definition, wanted: Definition) -> Definition:
        """Return the older definition, with all partition fields that the table ever had."""
        return with_former_fields(super().restored(current, wanted), current)

    def row_ids(self, storage: Storage, head: Head, definition: Definition) -> RowIds | None:
        """Return the columns of row lineage, for tables of format version 3."""
        return row_ids(storage, head, definition)

    def write_commit(
        self, context: LakeContext, session: Session, member: Ratified, metadata_files: list[str]
    ) -> Ratified:
        """Write the metadata, and insert or update the pointer to it in the catalog."""
        written = _begin if member.commit.version == 0 else _extend
        member = written(context, session, member, metadata_files)
        heads.set_published(session, member.head.table_id, member.commit.version)
        return member

    def publish_tags(
        self,
        context: LakeContext,
        session: Session,
        head: Head,
        tags: Mapping[str, int | None],
        metadata_files: list[str],
        *,
        replace_known: bool,
    ) -> Head:
        """Write the tags as refs into a new metadata document."""
        return tagging.publish_tags(
            context, session, head, tags, metadata_files, replace_known=replace_known
        )

    def publish(
        self, context: LakeContext, member: Ratified, background: BackgroundWorker | None
    ) -> None:
        """Write the version hint; the metadata was written before the commit was ratified.

        Delete documents that the new one no longer lists.
        """
        publish_hint(context, member.head)
        forget_documents(context, member.head, background)

    def publish_owed(self, context: LakeContext, head: Head) -> int:
        """Write the hint."""
        publish_hint(context, head)
        return head.version - head.published

    def publish_again(self, context: LakeContext, head: Head, versions: Iterable[int]) -> None:
        """Write the hint: lost metadata cannot be made again."""
        publish_hint(context, head)

    def anchors(self, context: LakeContext, head: Head) -> Iterator[tuple[int, str]]:
        """Read the snapshot summaries of the newest document."""
        for snapshot in document_of(context, head).all_snapshots().values():
            summary = snapshot.get("summary") or {}
            if ANCHOR in summary and str(summary.get(VERSION, "")).isdecimal():
                yield int(summary[VERSION]), str(summary[ANCHOR])

    def unknown_commit(self, context: LakeContext, session: Session, head: Head) -> str | None:
        """Return a later document of a Lakeward transaction that the store does not have."""
        return later_document(context, session, head)

    def taken_over(self, context: LakeContext, head: Head) -> str | None:
        """Return a later document that another lake wrote."""
        return taken_over(context, head)

    def foreign_refs(self, context: LakeContext, session: Session, head: Head) -> dict[str, int]:
        """Return all refs of the document but `main` and the lake's own tags."""
        return foreign_refs(context, session, head)

    def files_of_refs(
        self, context: LakeContext, head: Head, refs: Mapping[str, int]
    ) -> Iterator[str]:
        """Read the manifests of the snapshots."""
        return files_of_refs(context, head, refs)

    def old_metadata(
        self, context: LakeContext, session: Session, head: Head, before_ms: int
    ) -> tuple[list[str], int]:
        """Return documents and manifest lists that the current document no longer refers to."""
        return forgotten_files(context, session, head), 0

    def finds_own(self, context: LakeContext, session: Session, head: Head) -> bool:
        """Return False: a crash cannot undo the commit and leave its metadata published.

        The commit and the pointer to its metadata are in one database transaction.
        """
        if catalog.pointer(session, head.name) is None:
            raise not_entered(session, head)
        return False

    def take_over(
        self, context: LakeContext, session: Session, head: Head, record: TakeOver
    ) -> Head:
        """Lock the catalog's row and record what others committed since the log's document."""
        pointer = catalog.lock(session, head.name)
        if pointer == head.pointer:
            return head
        if pointer is None:
            raise not_entered(session, head)
        if head.drift == "refuse":
            return head
        definition = context.definition(session, head)
        document, found = _foreign(context, session, head, definition, pointer)
        for actions in found:
            head, definition = record(head, definition, actions)
        head = replace(head, pointer=document.location)
        heads.advance(session, head)
        heads.set_published(session, head.table_id, head.version)
        return head

    def refused(self, head: Head) -> ForeignCommit:
        """Return the error that another writer moved the pointer."""
        what = f"Somebody else committed to table {head.name}, which refuses it."
        hint = "Drop it and adopt it anew to take that commit."
        return ForeignCommit(what, hint=hint, table=str(head.name), version=head.version + 1)

    def vector_files(self, vector: Any) -> list[str]:
        """Return the delete files that apply."""
        return [schemeless(found["path"]) for found in vector[DELETE_FILES]]

    def vector_id(self, vector: Any) -> str | None:
        """Return the identity of a version's delete files."""
        return vector_id(vector)

    def occupies(self, storage: Storage, location: str) -> str | None:
        """Return what occupies a location: `Iceberg metadata` of acknowledged commits, or None."""
        found = Candidates.at(storage, location)
        return "Iceberg metadata" if found.names and not found.are_litter() else None

    def names_table(self, path: str) -> bool:
        """Return whether a path is that of a metadata document."""
        last = path.rpartition("/")[2]
        return document_number(last) is not None or last.endswith(".metadata.json")

    def find(self, context: LakeContext, location: str, *, expected: bool) -> str | None:
        """Return the newest acknowledged document of a directory."""
        candidates = Candidates.at(context.storage, location)
        return candidates.newest()[0].location if expected or candidates.names else None

    def leave(self, context: LakeContext, session: Session, head: Head) -> None:
        """Delete the row of the table's name in the catalog, if it belongs to this table."""
        pointer = catalog.lock(session, head.name)
        if pointer is not None and (pointer == head.pointer or is_of(context, head, pointer)):
            catalog.delete(session, head.name)

    def enter(self, context: LakeContext, session: Session, head: Head) -> None:
        """Insert the table's catalog row, with the document that the log has."""
        document_of(context, head)
        catalog.insert(session, head.name, str(head.pointer))


def _begin(
    context: LakeContext, session: Session, member: Ratified, metadata_files: list[str]
) -> Ratified:
    """Write a new table's first document, which has no snapshot, and enter it into the catalog."""
    head, info = member.head, member.commit.info
    place = place_of(context, head)
    created_by = {
        "transaction_id": info.transaction_id,
        "parameters": info.parameters,
        "actor": info.actor,
        "engine": info.engine,
    }
    at_ms = member.commit.timestamp_ms
    document = new_document(
        head,
        member.definition,
        place.location,
        at_ms=at_ms,
        created_by=created_by,
        source=_source(context, session, head),
    )
    made = first_files(document, place)
    catalog.insert(session, head.name, made.document.location)
    context.storage.make_directory(f"{head.location}/{METADATA_DIRECTORY}")
    _create(context, made, metadata_files)
    reach("iceberg.swapped")
    return replace(member, head=replace(head, pointer=made.document.location))


def _source(context: LakeContext, session: Session, head: Head) -> Document | None:
    """Return the newest document of the table of which a table is a clone; None if it is none."""
    number = branches.clone_source(session, head.table_id)
    source = None if number is None else heads.by_id(session, number)
    return None if source is None else document_of(context, source)


def _extend(
    context: LakeContext, session: Session, member: Ratified, metadata_files: list[str]
) -> Ratified:
    """Write a commit's snapshot and document, and update the pointer to the document."""
    head, commit = member.head, member.commit
    document = document_of(context, head)
    # The snapshot counts files and bytes by itself.
    place = place_of(context, head)
    back = None if commit.returns is None else returning(context, session, head, commit, document)
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
        sequences={v: _sequence(session, head, v) for v in {f.added for f in commit.removed}},
        returning=back,
    )
    _create(context, made, metadata_files)
    if not catalog.swap(session, head.name, document.location, made.document.location):
        # The row is locked, and it was read under the lock.
        message = f"the pointer of {head.name} moved while it was locked"
        raise AssertionError(message)
    reach("iceberg.swapped")
    context.cache(Memory).renew(document, made.document, made.manifests, made.entries, made.merged)
    return Ratified(
        replace(head, pointer=made.document.location),
        replace(commit, info=replace(commit.info, extra=_extra(made.document, commit))),
        member.definition,
    )


def _create(context: LakeContext, made: Next, metadata_files: list[str]) -> None:
    metadata_files.extend(name for name, _ in made.files)
    context.storage.create_all(made.files)
    reach("iceberg.prepared")


def _foreign(
    context: LakeContext, session: Session, head: Head, definition: Definition, pointer: str
) -> tuple[Document, list[ForeignActions]]:
    """Read the metadata file that other writers made current, and their commits since our last."""
    if not is_of(context, head, pointer):
        what = f"Somebody put another table in the place of {head.name} in the Iceberg catalog."
        hint = "Drop it from the lake and adopt the new one, or move one of them away."
        raise ForeignCommit(what, hint=hint, table=str(head.name), path=pointer)
    place = place_of(context, head)
    document = document_at(context, pointer)
    base = {"version": head.version, "timestamp_ms": head.timestamp_ms}
    source = ManifestReader(place.read, place.location)
    try:
        return document, read_drift(
            document, document_of(context, head), source, definition, **base
        )
    except CorruptTable:
        # Engines that expire snapshots delete what led to them; the log knows the files it had.
        live = [f.file for f in files.at(session, head.table_id, head.version)]
        return document, read_anew(document, source, definition, live, **base)


def _sequence(session: Session, head: Head, version: int) -> int | None:
    """Return a version's sequence number; None for adopted ones, whose files may be older."""
    found = commits.one(session, head.table_id, version)
    if found is None or found.info.adopted or found.info.extra is None:
        return None
    sequence: int | None = found.info.extra.get(SEQUENCE)
    return sequence


def _extra(document: Document, commit: Commit) -> dict[str, object]:
    """Return the facts about a commit's snapshot that the log keeps."""
    extra: dict[str, object] = dict(commit.info.extra or {})
    if document.current is not None:
        extra[SNAPSHOT_ID] = document.current["snapshot-id"]
        extra[SEQUENCE] = document.current["sequence-number"]
        extra |= list_extra(document.current, commit.info.transaction_id)
    return extra
