"""The file `version-hint.text` of an Iceberg table, which refers to the newest document.

The catalog decides which document is current; the hint is for readers that have only the files, and
for a lake whose store was lost. It is written after a commit is ratified and before the commit is
acknowledged, so a commit with a newer document was never acknowledged. It is not synced: after a
power cut it may be older.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from lakeward.errors import FileMissing, LakewardError
from lakeward.formats.directories import METADATA_DIRECTORY
from lakeward.log import heads
from lakeward.model.steps import reach

if TYPE_CHECKING:
    from lakeward.context import LakeContext
    from lakeward.model.commit import Head

HINT: Final = "version-hint.text"
_LOG = logging.getLogger(__name__)
_DOCUMENT: Final = re.compile(r"v?(\d+)(?:-[\w-]+)?(?:\.gz)?\.metadata\.json(?:\.gz)?")


def publish_hint(context: LakeContext, head: Head) -> None:
    """Write a head's document into the hint, unless the hint refers to a later one."""
    if head.pointer is None:
        return
    text = hint_text(head.pointer)
    with context.database.turn(head.table_id):
        known = _hinted(context, head)
        if known != text and _number(known) <= _number(text):
            _write_hint(context, head, text)
    reach("publish.hinted")


def renew_hints(context: LakeContext, dropped: Iterable[Head] = ()) -> None:
    """Write the log's newest document into every hint that refers to another.

    The process that ratified it may have died before it wrote the hint. After an older store was
    restored, the hint is newer than the log, and is set back. Failures are only logged. The hints
    of dropped tables are written only for those in `dropped`.
    """
    with context.database.read() as session:
        tables = heads.of_format(session, "iceberg")
    for head in (*tables, *dropped):
        try:
            if head.pointer is not None and _hinted(context, head) != hint_text(head.pointer):
                _renew_hint(context, head)
        except LakewardError as error:
            _LOG.warning("The hint of table %s could not be written: %s", head.name, error)


def hint_text(location: str) -> str:
    """Return the content of the hint for a document."""
    return location.rpartition("/")[2].removesuffix(".metadata.json")


def document_number(name: str) -> int | None:
    """Return the number in a document's file name; None for other files."""
    found = _DOCUMENT.fullmatch(name.rpartition("/")[2])
    return int(found[1]) if found else None


def _renew_hint(context: LakeContext, head: Head) -> None:
    with context.database.turn(head.table_id):
        with context.database.read() as session:
            current = heads.ever_by_id(session, head.table_id)
        if current.pointer is not None:
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
