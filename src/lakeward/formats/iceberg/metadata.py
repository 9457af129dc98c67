"""Reads an Iceberg table's metadata files through a lake's context, each of them once.

The cache holds what commits read or wrote before: published files never change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakeward.context import LakeContext
from lakeward.errors import CorruptTable, FileMissing
from lakeward.formats.iceberg.document import Document
from lakeward.formats.iceberg.manifests import read_entries, read_list
from lakeward.formats.iceberg.memory import Memory
from lakeward.formats.iceberg.publication import Place
from lakeward.log import catalog
from lakeward.log.database import Session
from lakeward.model.commit import Head


def document_at(context: LakeContext, pointer: str) -> Document:
    """Return the metadata document of a full name."""
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
    return context.cache(Memory).manifests(
        document.current["manifest-list"], lambda name: read_list(name, read(name))
    )


def place_of(context: LakeContext, head: Head) -> Place:
    """Return where a table is and how its metadata is read."""
    read = reader(context)

    def entries(manifest: Any) -> list[Any]:
        return context.cache(Memory).entries(
            manifest.manifest_path, lambda name: read_entries(manifest, read(name))
        )

    return Place(context.storage.uri(head.location), read, entries)


def is_of(context: LakeContext, head: Head, pointer: str) -> bool:
    """Return whether a metadata document is the table's."""
    return document_at(context, pointer).uuid in ("", head.uuid)


def reader(context: LakeContext) -> Callable[[str], bytes]:
    """Return a function that reads metadata files by their full names."""

    def read(name: str) -> bytes:
        try:
            return context.storage.read(context.storage.path_of(name))
        except FileMissing as error:
            what = f"The metadata file {name} is missing."
            hint = "If the lake was moved, run `lakeward relocate`. Otherwise ask the doctor."
            raise CorruptTable(what, hint=hint, path=name) from error

    return read


def not_entered(session: Session, head: Head) -> CorruptTable:
    """Return the error that the catalog has no row of the table's name."""
    what = f"Somebody took table {head.name} out of the lake's Iceberg catalog."
    others = catalog.pointing_to(session, str(head.pointer))
    if others:
        what = f"Somebody renamed table {head.name} to {others[0]} in the lake's Iceberg catalog."
    hint = "Its files and history are safe: `lakeward doctor --fix` enters it again."
    return CorruptTable(what, hint=hint, table=str(head.name))
