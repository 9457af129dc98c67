"""The hint beside an Iceberg table's documents: which of them a commit was acknowledged for.

The catalog decides which document is current; the hint is for readers that have only the files, and
for a lake whose store was lost. It is written after the commit is ratified and before that is
acknowledged, so a document beyond it was acknowledged to nobody. It is not synced: a power cut may
leave an older one.
"""

from __future__ import annotations

import logging
from contextlib import suppress

from lakeward.context import LakeContext
from lakeward.errors import FileMissing, LakewardError
from lakeward.formats.iceberg.document import METADATA_DIRECTORY
from lakeward.formats.iceberg.newest import HINT, document_number, hint_text
from lakeward.log import heads
from lakeward.model.commit import Head
from lakeward.model.steps import reach

_LOG = logging.getLogger(__name__)


def publish_hint(context: LakeContext, head: Head) -> None:
    """Write a head's document into the hint, unless the hint names a later one."""
    if head.pointer is None:
        return
    text = hint_text(head.pointer)
    with context.database.turn(head.table_id):
        known = _read(context, head)
        if known != text and _number(known) <= _number(text):
            _write(context, head, text)
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
            if head.pointer is not None and _read(context, head) != hint_text(head.pointer):
                _renew(context, head)
        except LakewardError as error:
            _LOG.warning("The hint of table %s could not be written: %s", head.name, error)


def _renew(context: LakeContext, head: Head) -> None:
    with context.database.turn(head.table_id):
        with context.database.read() as session:
            current = heads.by_id(session, head.table_id)
        if current is not None and current.pointer is not None:
            _write(context, current, hint_text(current.pointer))


def _write(context: LakeContext, head: Head, text: str) -> None:
    context.storage.replace(_path(head), f"{text}\n".encode())


def _read(context: LakeContext, head: Head) -> str:
    with suppress(FileMissing, UnicodeDecodeError):
        return context.storage.read(_path(head)).decode().strip()
    return ""


def _path(head: Head) -> str:
    return f"{head.location}/{METADATA_DIRECTORY}/{HINT}"


def _number(text: str) -> int:
    found = document_number(f"{text}.metadata.json")
    return -1 if found is None else found
