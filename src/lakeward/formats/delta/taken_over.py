"""Finds out whether another lake or engine writes to a dropped Delta table."""

from __future__ import annotations

import orjson

from lakeward.errors import FileMissing, TableNotFound
from lakeward.formats.adoption import ADOPT_TABLE
from lakeward.formats.delta.publication import commit_path
from lakeward.formats.delta.segment import segment_of
from lakeward.model.commit import Head
from lakeward.storage.base import Storage


def taken_over(storage: Storage, head: Head) -> str | None:
    """Return the first commit after a dropped table's last one if others made it; None otherwise.

    Only the lake itself makes the next commit of a guarded table, unless it is an adoption.
    """
    try:
        later = [v for v in segment_of(storage, head.location).commits if v > head.version]
    except TableNotFound:
        return None
    if not later:
        return None
    first = min(later)
    path = commit_path(head.location, first)
    is_next = head.guarded and first == head.version + 1
    return None if is_next and _operation(storage, path) != ADOPT_TABLE else path


def _operation(storage: Storage, path: str) -> str | None:
    """Return the operation of a commit that Lakeward wrote; None if it cannot be read."""
    try:
        info = orjson.loads(storage.read(path).partition(b"\n")[0]).get("commitInfo") or {}
    except (FileMissing, orjson.JSONDecodeError):
        return None
    return str(info.get("operation"))
