"""Checks which files of old versions still exist, and finds the oldest readable version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lakeward.context import LakeContext
from lakeward.formats.registry import format_of
from lakeward.log import files, retired
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.model.file import LoggedFile, is_full

_LISTED_FROM: Final = 200
"""From this number of files on, the table's directory is listed instead of checking each file."""


def missing(context: LakeContext, head: Head, wanted: Sequence[LoggedFile]) -> list[LoggedFile]:
    """Return those of a table's files that are missing, or whose deletion vector is missing."""
    storage = context.storage
    needed = [(file, _places(head, file)) for file in wanted]
    there: dict[str, bool] = {}
    if len(needed) >= _LISTED_FROM:
        below = f"{head.location}/"
        found = {f.path for f in storage.listing(head.location, recursive=True)}
        there = {p: p in found for _, places in needed for p in places if p.startswith(below)}
    out = []
    for file, places in needed:
        for place in places:
            if place not in there:
                there[place] = storage.exists(place)
        if not all(there[place] for place in places):
            out.append(file)
    return out


def oldest_working(context: LakeContext, session: Session, head: Head) -> int:
    """Return the oldest version of a table whose files all exist.

    The files of the newest version are assumed to exist.
    """
    oldest = retired.oldest_readable(session, head.table_id) or 0
    removed = files.removed_between(session, head.table_id, -1, head.version)
    gone = [(f.added, f.removed) for f in missing(context, head, removed) if f.removed > oldest]
    for low, high in sorted([*gone, *retired.ranges(session, head.table_id)]):
        if low > oldest:
            break
        oldest = max(oldest, high)
    return min(oldest, head.version)


def _places(head: Head, file: LoggedFile) -> list[str]:
    vector = file.file.deletion_vector
    names = [file.path, *([] if vector is None else format_of(head).vector_files(vector))]
    return [name if is_full(name) else f"{head.location}/{name}" for name in names]
