"""Finds the files of a table that kept versions need, and those that only older ones need.

A row of `lakeward_file` is needed if one of the kept versions is in its range: a version from
`kept_from` on, or an older one that is held.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, Final

from lakeward.log import files, retired
from lakeward.log.database import Session
from lakeward.log.statement import Statement
from lakeward.model.file import is_full

_NEEDED = Statement(
    """SELECT path, deletion_vector FROM lakeward_file
    WHERE table_id = :table_id AND removed_version > :kept_from"""
)
_OLD = Statement(
    """SELECT path, deletion_vector, added_version, removed_version FROM lakeward_file
    WHERE table_id = :table_id AND removed_version <= :kept_from"""
)
_OLD_RANGES = Statement(
    """SELECT DISTINCT added_version, removed_version FROM lakeward_file
    WHERE table_id = :table_id AND removed_version <= :kept_from"""
)
_CHANGES = Statement("SELECT path, version FROM lakeward_change_file WHERE table_id = :table_id")
_OTHER_TABLES = Statement("SELECT table_id FROM lakeward_head WHERE table_id <> :table_id")
_FULL = Statement(
    """SELECT path, deletion_vector FROM lakeward_file
    WHERE table_id = :table_id AND path >= :low AND path < :high"""
)
_ADDED_SINCE = Statement(
    """SELECT path, deletion_vector FROM lakeward_file
    WHERE table_id = :table_id AND added_version > :version"""
)
_SCHEMES: Final = ("file", "s3", "gs", "gcs", "az", "abfs", "wasb", "adl")
_FULL_PREFIXES: Final = (("/", "0"), *((s, s[:-1] + chr(ord(s[-1]) + 1)) for s in _SCHEMES))
"""Ranges of text that contain every full path or URL, and some other paths."""


def needed_paths(session: Session, table_id: int, kept_from: int) -> Iterator[list[Any]]:
    """Yield the files that versions from `kept_from` on need, in chunks: path, deletion vector."""
    return session.stream(_NEEDED, {"table_id": table_id, "kept_from": kept_from})


def old_paths(session: Session, table_id: int, kept_from: int) -> Iterator[list[Any]]:
    """Yield the files removed up to `kept_from`, in chunks.

    Each row has the path, deletion vector, first version, and version after the last.
    """
    return session.stream(_OLD, {"table_id": table_id, "kept_from": kept_from})


def retired_ranges(
    session: Session, table_id: int, kept_from: int, held: Sequence[int]
) -> list[tuple[int, int]]:
    """Return the version ranges of rows that no kept version needs; `held` is sorted."""
    found = session.rows(_OLD_RANGES, {"table_id": table_id, "kept_from": kept_from})
    return [(low, high) for low, high in found if not is_held(held, low, high)]


def is_held(held: Sequence[int], low: int, high: int) -> bool:
    """Return whether one of the sorted versions `held` is in a range."""
    place = bisect_left(held, low)
    return place < len(held) and held[place] < high


def has_all_files(session: Session, table_id: int, version: int, since: int) -> bool:
    """Return whether a version surely has all files of an older version `since`.

    If `since` is retired this is not known, because vacuum deletes rows of its files.
    """
    if retired.is_retired(session, table_id, since):
        return False
    return not files.removed_since(session, table_id, since, version)


def change_paths(session: Session, table_id: int) -> list[Any]:
    """Return the path and version of every change file of a table."""
    return session.rows(_CHANGES, {"table_id": table_id})


def full_paths_of_others(session: Session, table_id: int) -> Iterator[Any]:
    """Yield paths and deletion vectors of other tables' files that are stored as full paths."""
    for (other,) in session.rows(_OTHER_TABLES, {"table_id": table_id}):
        for low, high in _FULL_PREFIXES:
            for row in session.rows(_FULL, {"table_id": other, "low": low, "high": high}):
                if is_full(row[0]) or row[0].startswith("file:"):
                    yield row


def added_since(session: Session, table_id: int, version: int) -> list[Any]:
    """Return the path and deletion vector of every file added after a version."""
    return session.rows(_ADDED_SINCE, {"table_id": table_id, "version": version})
