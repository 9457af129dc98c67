"""Finds which files of a table the kept versions need, and which only older ones.

A row of `lakeward_file` is needed if one of the kept versions is in its range: a version from
`kept_from` on, or an older one that is held.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, Final

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
"""Ranges of text in which all paths are that are named in full, and some others."""


def needed_paths(session: Session, table_id: int, kept_from: int) -> Iterator[list[Any]]:
    """Paths and deletion vectors of all rows that versions from `kept_from` on need, in chunks."""
    return session.stream(_NEEDED, {"table_id": table_id, "kept_from": kept_from})


def old_paths(session: Session, table_id: int, kept_from: int) -> Iterator[list[Any]]:
    """The other rows, in chunks: path, deletion vector, first version, version after the last."""
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


def change_paths(session: Session, table_id: int) -> list[Any]:
    """Return path and version of every change file."""
    return session.rows(_CHANGES, {"table_id": table_id})


def full_paths_of_others(session: Session, table_id: int) -> Iterator[Any]:
    """Yield paths and deletion vectors of other tables' files that are stored as full paths."""
    for (other,) in session.rows(_OTHER_TABLES, {"table_id": table_id}):
        for low, high in _FULL_PREFIXES:
            for row in session.rows(_FULL, {"table_id": other, "low": low, "high": high}):
                if is_full(row[0]) or row[0].startswith("file:"):
                    yield row


def added_since(session: Session, table_id: int, version: int) -> list[Any]:
    """Paths and deletion vectors of all rows that versions after this one added."""
    return session.rows(_ADDED_SINCE, {"table_id": table_id, "version": version})
