"""Finds out whether another lake writes to a dropped Iceberg table."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import orjson

from lakeward.context import LakeContext
from lakeward.errors import CorruptTable, FileMissing
from lakeward.formats.adoption import ADOPT_TABLE
from lakeward.formats.iceberg.document import METADATA_DIRECTORY, parse
from lakeward.formats.iceberg.hints import document_number
from lakeward.formats.iceberg.summary import INFO, TRANSACTION_ID, VERSION
from lakeward.model.commit import Head


def taken_over(context: LakeContext, head: Head) -> str | None:
    """Return the newest document if another lake committed it to a dropped table; None otherwise.

    Only the lake itself makes the next version of its table, unless it is an adoption.
    """
    if head.pointer is None:
        return None
    directory = f"{head.location}/{METADATA_DIRECTORY}"
    numbers = {
        f.path: document_number(f.path.rpartition("/")[2])
        for f in context.storage.listing(directory)
    }
    own = document_number(head.pointer) or 0
    newest = max((n for n in numbers.values() if n is not None), default=0)
    for path in sorted(p for p, n in numbers.items() if n == newest and n > own):
        if _is_of_another_lake(context, head, path):
            return path
    return None


def _is_of_another_lake(context: LakeContext, head: Head, path: str) -> bool:
    """Return whether a document has a later version than the head that another lake made."""
    with suppress(CorruptTable, FileMissing):
        snapshots = parse(path, context.storage.read(path)).all_snapshots().values()
        later = dict(filter(None, map(_version, snapshots)))
        first = min((v for v in later if v > head.version), default=None)
        return first is not None and (first > head.version + 1 or later[first] == ADOPT_TABLE)
    return False


def _version(snapshot: dict[str, Any]) -> tuple[int, str] | None:
    """Return the version and the operation of a snapshot that Lakeward wrote; None for others."""
    summary = snapshot.get("summary") or {}
    if TRANSACTION_ID not in summary or not str(summary.get(VERSION, "")).isdecimal():
        return None
    operation = ""
    with suppress(orjson.JSONDecodeError, AttributeError):
        operation = str(orjson.loads(summary.get(INFO, "{}")).get("operation", ""))
    return int(summary[VERSION]), operation
