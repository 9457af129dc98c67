"""Differences of versions for pages and the API: without lists of files, or with the first ones.

Two versions may differ in millions of files. Their totals come from queries; files are listed page
by page, and partitions are counted only when they are asked for.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

from lakeward.lake.records import Diff, FilePage
from lakeward.model.records import json_names, to_json
from lakeward.web.answers import cursor_of, place_of

Kind: TypeAlias = Literal["added", "removed"]
_READ_LATER: Final = frozenset({"files_added", "files_removed", "partitions", "changed"})


def with_first_files(found: Diff, limit: int) -> dict[str, Any]:
    """Return the JSON form of a difference with at most `limit` added and removed files.

    It has neither `partitions` nor `changed`.
    """
    names = json_names(Diff).items()
    shown = {name: to_json(getattr(found, own)) for own, name in names if own not in _READ_LATER}
    added, removed = (found.files(kind, limit=limit).files for kind in ("added", "removed"))
    return {**shown, "files_added": to_json(added), "files_removed": to_json(removed)}


def counts(found: Diff, limit: int) -> dict[str, Any]:
    """Return how many rows commits changed, and the partitions with the most changed files.

    At most `limit` partitions, sorted by name, and `partition_count`, how many there are.
    """
    every = found.partitions
    most = sorted(every, key=lambda one: -(one.files_added + one.files_removed))[:limit]
    shown = sorted(most, key=lambda one: one.partition)
    return {
        "changed": to_json(found.changed),
        "partitions": to_json(shown),
        "partition_count": len(every),
    }


def file_page(found: Diff, kind: Kind, cursor: str | None, limit: int) -> dict[str, Any]:
    """Return a page of the added or removed files, with the cursor of the next one."""
    place = place_of(cursor, added=int, ordinal=int)
    after = None if place is None else (place["added"], place["ordinal"])
    page: FilePage = found.files(kind, limit=limit, after=after)
    count = found.added.files if kind == "added" else found.removed.files
    more = None if page.next is None else cursor_of(added=page.next[0], ordinal=page.next[1])
    return {"kind": kind, "count": count, "files": to_json(page.files), "next": more}
