"""Writes log compaction files: the net actions of a range of commits in one file.

A reader that starts at a checkpoint reads one such file instead of a hundred commits. The files are
written for tables whose checkpoints are rare because they have many files. Their content depends on
the log alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import orjson

from lakeward.context import LakeContext
from lakeward.errors import VersionNotFound
from lakeward.formats.background import with_pauses
from lakeward.formats.delta.publication import LOG_DIRECTORY, commit_bytes, recorded
from lakeward.formats.delta.values import vector_id
from lakeward.log import commits, files, retired
from lakeward.log.database import Session
from lakeward.model.commit import Head

_MOST_FILES: Final = 10_000
"""With more added and removed files, no compaction file is written: it would be too large."""
_OF_COMMITS: Final = ("commitInfo", "cdc")


def compacted_path(location: str, first: int, last: int) -> str:
    """Return the path of the file with the net actions of a range of versions."""
    return f"{location}/{LOG_DIRECTORY}/{first:020d}.{last:020d}.compacted.json"


def compacted_bytes(published: Iterable[bytes]) -> bytes:
    """Return the net actions of commits, given as their published bytes, oldest first."""
    newest: dict[tuple[object, ...], dict[str, Any]] = {}
    for data in published:
        for line in data.splitlines():
            action = orjson.loads(line)
            kind, body = next(iter(action.items()))
            if kind in _OF_COMMITS:
                continue
            if kind in ("add", "remove"):
                body["dataChange"] = False
            key = _key(kind, body)
            # The newest is also the last: readers may rely on either.
            newest.pop(key, None)
            newest[key] = action
    return b"\n".join(map(orjson.dumps, newest.values())) + b"\n"


def write_compacted(context: LakeContext, head: Head, first: int, last: int) -> bool:
    """Write the net actions of a range of published versions; return whether that is possible.

    It is not if the range has too many files, commits of other writers, or versions that vacuum has
    pruned.
    """
    with context.database.read() as session:
        if not _is_suitable(session, head, first, last):
            return False
    versions = with_pauses(range(first, last + 1))
    try:
        data = compacted_bytes(commit_bytes(*recorded(context, head, v)) for v in versions)
    except VersionNotFound:
        # Vacuum began to prune meanwhile.
        return False
    context.storage.put_if_absent(compacted_path(head.location, first, last), data)
    return True


def _is_suitable(session: Session, head: Head, first: int, last: int) -> bool:
    if retired.kept_from(session, head.table_id) > first:
        return False
    known = commits.history(session, head.table_id, low=first, high=last, limit=last - first + 1)
    if len(known) <= last - first or any(c.info.adopted for c in known):
        return False
    return files.count_changed(session, head.table_id, first - 1, last) <= _MOST_FILES


def _key(kind: str, body: dict[str, Any]) -> tuple[object, ...]:
    match kind:
        case "add" | "remove":
            return "file", body["path"], vector_id(body.get("deletionVector"))
        case "txn":
            return kind, body["appId"]
        case "domainMetadata":
            return kind, body["domain"]
        case _:
            return (kind,)
