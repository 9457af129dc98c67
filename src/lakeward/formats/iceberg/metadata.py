"""Reads the metadata files of Iceberg tables, through the storage and cache of a lake's context.

The cache keeps the files that commits read or wrote, because published files never change.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from lakeward.context import LakeContext
from lakeward.errors import CorruptTable, FileMissing, LakewardError
from lakeward.formats.background import BackgroundWorker
from lakeward.formats.iceberg.document import METADATA_DIRECTORY, Document, parse
from lakeward.formats.iceberg.expiry import DELETE_DOCUMENTS
from lakeward.formats.iceberg.hints import document_number
from lakeward.formats.iceberg.listing import ManifestReader
from lakeward.formats.iceberg.manifests import read_entries, read_list
from lakeward.formats.iceberg.memory import Memory
from lakeward.formats.iceberg.publication import Place
from lakeward.formats.iceberg.summary import transaction_of
from lakeward.log import catalog, transactions
from lakeward.log.database import Session
from lakeward.model.commit import Head

_LOG = logging.getLogger(__name__)


def document_at(context: LakeContext, pointer: str) -> Document:
    """Return the metadata document at a full path."""
    return context.cache(Memory).document(pointer, reader(context))


def document_of(context: LakeContext, head: Head) -> Document:
    """Return the metadata document of a head's version."""
    if head.pointer is None:
        what = f"The log has no metadata document for table {head.name}."
        raise CorruptTable(what, hint="Run `lakeward doctor`.", table=str(head.name))
    return document_at(context, head.pointer)


def manifests_of(context: LakeContext, document: Document) -> list[object]:
    """Return the manifests of a document's current snapshot."""
    if document.current is None:
        return []
    read = reader(context)
    if "manifest-list" not in document.current:
        # A snapshot of version 1 may name its manifests itself.
        location = str(document.body["location"])
        return list(ManifestReader(read, location).manifests(document.current).values())
    return context.cache(Memory).manifests(
        document.current["manifest-list"], lambda name: read_list(name, read(name))
    )


def place_of(context: LakeContext, head: Head) -> Place:
    """Return a table's directory, with functions that read its metadata through the cache."""
    stored = reader(context)

    def read(name: str) -> bytes:
        return context.cache(Memory).content(name, stored)

    def entries(manifest: Any) -> list[Any]:
        return context.cache(Memory).entries(
            manifest.manifest_path, lambda name: read_entries(manifest, read(name))
        )

    return Place(context.storage.uri(head.location), read, entries)


def is_of(context: LakeContext, head: Head, pointer: str) -> bool:
    """Return whether the metadata document at `pointer` has the table's UUID or none."""
    return document_at(context, pointer).uuid in ("", head.uuid)


def reader(context: LakeContext) -> Callable[[str], bytes]:
    """Return a function that reads a metadata file by its full path."""

    def read(name: str) -> bytes:
        try:
            return context.storage.read(context.storage.path_of(name))
        except FileMissing as error:
            what = f"The metadata file {name} is missing."
            hint = "If the lake was moved, run `lakeward relocate`. Otherwise ask the doctor."
            raise CorruptTable(what, hint=hint, path=name) from error

    return read


def not_entered(session: Session, head: Head) -> CorruptTable:
    """Return an error that says that the lake's Iceberg catalog has no row of the table's name."""
    what = f"Somebody took table {head.name} out of the lake's Iceberg catalog."
    others = catalog.pointing_to(session, str(head.pointer))
    if others:
        what = f"Somebody renamed table {head.name} to {others[0]} in the lake's Iceberg catalog."
    hint = "Its files and history are safe: `lakeward doctor --fix` enters it again."
    return CorruptTable(what, hint=hint, table=str(head.name))


def later_document(context: LakeContext, session: Session, head: Head) -> str | None:
    """Return the path of a later document by a transaction that the store does not know, if any.

    The store lost that transaction when it was restored from a backup. If the store has commits
    since, the head's document may have the same number as the lost one: equal numbers count as
    later. Documents that other engines wrote and never committed are ignored.
    """
    if head.pointer is None:
        return None
    current, own = document_number(head.pointer) or 0, head.pointer.rpartition("/")[2]
    directory = f"{head.location}/{METADATA_DIRECTORY}"
    for file in context.storage.listing(directory):
        name = file.path.rpartition("/")[2]
        number = document_number(name)
        if number is None or number < current or name == own:
            continue
        with suppress(CorruptTable, FileMissing):
            author = transaction_of(parse(file.path, context.storage.read(file.path)).current)
            if author is not None and transactions.get(session, author) is None:
                return file.path
    return None


def forget_documents(context: LakeContext, head: Head, background: BackgroundWorker | None) -> None:
    """Delete the documents that a head's document no longer lists, unless a property keeps them.

    Files that cannot be deleted are left for `expire`.
    """
    if head.pointer is not None:
        forget(context, head, document_at(context, head.pointer), background)


def forget(
    context: LakeContext, head: Head, document: Document, background: BackgroundWorker | None = None
) -> None:
    """Do as `forget_documents`, for a head whose `document` has been read already."""
    if not document.forgotten or document.properties.get(DELETE_DOCUMENTS, "true") == "false":
        return

    def delete() -> None:
        inside = f"{context.storage.uri(head.location)}/{METADATA_DIRECTORY}/"
        names = [
            n for n in map(context.storage.path_of, document.forgotten) if n.startswith(inside)
        ]
        context.storage.delete(names)

    if background is not None and context.storage.is_remote:
        background.do(delete)
        return
    try:
        delete()
    except LakewardError as error:
        _LOG.warning("Old metadata of table %s could not be deleted: %s", head.name, error)
