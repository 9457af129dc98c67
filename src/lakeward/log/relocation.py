"""Rows of the log that contain full paths, which must be changed after a lake was moved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from lakeward.log.codec import info_text
from lakeward.log.database import Session
from lakeward.log.statement import Statement
from lakeward.model.commit import CommitInfo

_FULL: Final = {"rooted": "/%", "schemed": "%:/%"}
"""LIKE patterns of full paths and URLs."""
_FILES = Statement(
    """SELECT table_id, added_version, ordinal, path, deletion_vector, extra FROM lakeward_file
    WHERE path LIKE :rooted OR path LIKE :schemed
    OR deletion_vector LIKE :slashed OR extra LIKE :slashed_too"""
)
_SET_FILE = Statement(
    """UPDATE lakeward_file SET path = :path, deletion_vector = :deletion_vector, extra = :extra
    WHERE table_id = :table_id AND added_version = :added_version AND ordinal = :ordinal"""
)
_CHANGE_FILES = Statement(
    """SELECT table_id, version, ordinal, path FROM lakeward_change_file
    WHERE path LIKE :rooted OR path LIKE :schemed"""
)
_SET_CHANGE_FILE = Statement(
    """UPDATE lakeward_change_file SET path = :path
    WHERE table_id = :table_id AND version = :version AND ordinal = :ordinal"""
)
_POINTERS = Statement(
    """SELECT catalog_name, table_namespace, table_name, metadata_location FROM iceberg_tables
    WHERE metadata_location IS NOT NULL
    ORDER BY catalog_name, table_namespace, table_name"""
)
_SET_POINTER = Statement(
    """UPDATE iceberg_tables SET metadata_location = :new, previous_metadata_location = :old
    WHERE catalog_name = :catalog AND table_namespace = :namespace AND table_name = :name
    AND metadata_location = :old_again"""
)
_SET_HEAD = Statement("UPDATE lakeward_head SET pointer = :new WHERE pointer = :old")
_SET_INFO = Statement(
    "UPDATE lakeward_commit SET info = :info WHERE table_id = :table_id AND version = :version"
)
_LOCK_HEADS = Statement("SELECT table_id FROM lakeward_head ORDER BY table_id FOR UPDATE")


def full_files(session: Session) -> Iterator[Any]:
    """Yield file rows that may contain a full path: key, path, deletion vector, extra."""
    anywhere = {"slashed": "%/%", "slashed_too": "%/%"}
    for chunk in session.stream(_FILES, {**_FULL, **anywhere}):
        yield from chunk


def set_files(session: Session, rows: list[dict[str, Any]]) -> None:
    """Update the paths, deletion vectors and extras of files."""
    if rows:
        session.many(_SET_FILE, rows)


def full_change_files(session: Session) -> list[Any]:
    """Return the rows of change files with a full path: key, path."""
    return session.rows(_CHANGE_FILES, _FULL)


def set_change_files(session: Session, rows: list[dict[str, Any]]) -> None:
    """Update the paths of change files."""
    if rows:
        session.many(_SET_CHANGE_FILE, rows)


def set_infos(session: Session, table_id: int, infos: Iterable[tuple[int, CommitInfo]]) -> None:
    """Update what the log has about the commits of versions."""
    rows = [{"table_id": table_id, "version": v, "info": info_text(i)} for v, i in infos]
    if rows:
        session.many(_SET_INFO, rows)


def pointers(session: Session) -> list[tuple[str, str, str, str]]:
    """Return every table of all Iceberg catalogs: catalog, namespace, name, metadata location."""
    return [(c, n, t, p) for c, n, t, p in session.rows(_POINTERS)]


def lock_heads(session: Session) -> None:
    """Lock all heads, so that no other transaction commits until the session ends."""
    if session.dialect != "sqlite":
        session.rows(_LOCK_HEADS)


def set_pointer(session: Session, row: tuple[str, str, str, str], new: str) -> bool:
    """Replace the metadata location in a row of `pointers` if unchanged; return whether it was."""
    catalog, namespace, name, old = row
    named = {"catalog": catalog, "namespace": namespace, "name": name}
    return session.run(_SET_POINTER, {**named, "new": new, "old": old, "old_again": old}) == 1


def set_head_pointer(session: Session, old: str, new: str) -> None:
    """Replace a metadata location in the head that has it."""
    session.run(_SET_HEAD, {"old": old, "new": new})
