"""Rows of the log that name files in full, for a lake that was moved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from lakeward.log.database import Session
from lakeward.log.statement import Statement

_FULL: Final = {"rooted": "/%", "schemed": "%:/%"}
"""What paths that name a file in full look like."""
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
_LOCK_HEADS = Statement("SELECT table_id FROM lakeward_head ORDER BY table_id FOR UPDATE")
_HEAD_POINTERS = Statement(
    "SELECT pointer FROM lakeward_head WHERE pointer IS NOT NULL AND dropped_ms IS NULL"
)


def full_files(session: Session) -> Iterator[Any]:
    """Rows of files that may name a file in full: key, path, deletion vector and extra."""
    anywhere = {"slashed": "%/%", "slashed_too": "%/%"}
    for chunk in session.stream(_FILES, {**_FULL, **anywhere}):
        yield from chunk


def set_files(session: Session, rows: list[dict[str, Any]]) -> None:
    """Write paths, deletion vectors and extras of files."""
    if rows:
        session.many(_SET_FILE, rows)


def full_change_files(session: Session) -> list[Any]:
    """Rows of change files that name a file in full: key and path."""
    return session.rows(_CHANGE_FILES, _FULL)


def set_change_files(session: Session, rows: list[dict[str, Any]]) -> None:
    """Write paths of change files."""
    if rows:
        session.many(_SET_CHANGE_FILE, rows)


def pointers(session: Session) -> list[tuple[str, str, str, str]]:
    """Every table of every Iceberg catalog in the store: catalog, namespace, name, document."""
    return [(c, n, t, p) for c, n, t, p in session.rows(_POINTERS)]


def head_pointers(session: Session) -> set[str]:
    """The documents that heads stand for."""
    return {row[0] for row in session.rows(_HEAD_POINTERS)}


def lock_heads(session: Session) -> None:
    """Keep everybody else from committing until the write session ends."""
    if session.dialect != "sqlite":
        session.rows(_LOCK_HEADS)


def set_pointer(session: Session, row: tuple[str, str, str, str], new: str) -> bool:
    """Name another document for a table, if the catalog still has the one given."""
    catalog, namespace, name, old = row
    named = {"catalog": catalog, "namespace": namespace, "name": name}
    return session.run(_SET_POINTER, {**named, "new": new, "old": old, "old_again": old}) == 1


def set_head_pointer(session: Session, old: str, new: str) -> None:
    """Let the head that stands for a document stand for another one."""
    session.run(_SET_HEAD, {"old": old, "new": new})
