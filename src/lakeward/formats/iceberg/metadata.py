"""An Iceberg table's metadata files as a lake's context reads them, and the hint beside them.

The cache holds what commits read or wrote before: published files never change. The catalog decides
which document is current; the hint is for readers that have only the files, and for a lake whose
store was lost. It is written after a commit is ratified and before that is acknowledged, so a
document beyond it was acknowledged to nobody. It is not synced: a power cut may leave an older one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from lakeward.context import LakeContext
from lakeward.errors import CorruptTable, FileMissing, LakewardError
from lakeward.formats.iceberg.document import METADATA_DIRECTORY, Document
from lakeward.formats.iceberg.manifests import read_entries, read_list
from lakeward.formats.iceberg.memory import Memory
from lakeward.formats.iceberg.newest import HINT, document_number, hint_text
from lakeward.formats.iceberg.publication import Place
from lakeward.log import catalog, heads
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.model.steps import reach

_LOG = logging.getLogger(__name__)


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


def publish_hint(context: LakeContext, head: Head) -> None:
    """Write a head's document into the hint, unless the hint names a later one."""
    if head.pointer is None:
        return
    text = hint_text(head.pointer)
    with context.database.turn(head.table_id):
        known = _hinted(context, head)
        if known != text and _number(known) <= _number(text):
            _write_hint(context, head, text)
    reach("publish.hinted")


def renew_hints(context: LakeContext) -> None:
    """Write the log's newest document into every hint that names another.

    The process that ratified it may have died before it wrote the hint. After an older store was
    put back the hint is newer than the log, and is set back. Failures are only reported.
    """
    with context.database.read() as session:
        tables = heads.of_format(session, "iceberg")
    for head in tables:
        try:
            if head.pointer is not None and _hinted(context, head) != hint_text(head.pointer):
                _renew_hint(context, head)
        except LakewardError as error:
            _LOG.warning("The hint of table %s could not be written: %s", head.name, error)


def _renew_hint(context: LakeContext, head: Head) -> None:
    with context.database.turn(head.table_id):
        with context.database.read() as session:
            current = heads.by_id(session, head.table_id)
        if current is not None and current.pointer is not None:
            _write_hint(context, current, hint_text(current.pointer))


def _write_hint(context: LakeContext, head: Head, text: str) -> None:
    context.storage.replace(_hint_path(head), f"{text}\n".encode())


def _hinted(context: LakeContext, head: Head) -> str:
    with suppress(FileMissing, UnicodeDecodeError):
        return context.storage.read(_hint_path(head)).decode().strip()
    return ""


def _hint_path(head: Head) -> str:
    return f"{head.location}/{METADATA_DIRECTORY}/{HINT}"


def _number(text: str) -> int:
    found = document_number(f"{text}.metadata.json")
    return -1 if found is None else found
