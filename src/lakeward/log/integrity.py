"""Queries by which the doctor checks that the log agrees with itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from lakeward.log.database import Session
from lakeward.log.statement import Statement
from lakeward.model.file import LIVE

_NEIGHBOURS: Final = """FROM (SELECT version, timestamp_ms,
        lag(version) OVER (ORDER BY version) AS earlier,
        lag(timestamp_ms) OVER (ORDER BY version) AS earlier_ms
    FROM lakeward_commit WHERE table_id = :table_id) neighbours"""
_RANGE = Statement(
    "SELECT min(version), max(version) FROM lakeward_commit WHERE table_id = :table_id"
)
_GAPS = Statement(f"SELECT earlier, version {_NEIGHBOURS} WHERE version <> earlier + 1")
_BACKWARDS = Statement(
    f"SELECT version, timestamp_ms, earlier_ms {_NEIGHBOURS} WHERE timestamp_ms <= earlier_ms"
)
_BAD_RANGES = Statement(
    """SELECT f.path, f.added_version, f.removed_version FROM lakeward_file f
    LEFT JOIN lakeward_commit a ON a.table_id = f.table_id AND a.version = f.added_version
    LEFT JOIN lakeward_commit r ON r.table_id = f.table_id AND r.version = f.removed_version
    WHERE f.table_id = :table_id AND (a.version IS NULL OR f.removed_version <= f.added_version
        OR (f.removed_version <> :live AND r.version IS NULL))"""
)
_OVERLAPS = Statement(
    """SELECT path, added_version, next_version FROM (
        SELECT path, added_version, removed_version, lead(added_version) OVER (
            PARTITION BY path, coalesce(deletion_vector, '') ORDER BY added_version, ordinal
        ) AS next_version FROM lakeward_file WHERE table_id = :table_id) neighbours
    WHERE next_version < removed_version"""
)
_LOST_APPLICATIONS = Statement(
    """SELECT a.app_id, a.version FROM lakeward_app_transaction a
    LEFT JOIN lakeward_commit c ON c.table_id = a.table_id AND c.version = a.version
    WHERE a.table_id = :table_id AND c.version IS NULL"""
)
_LOST_CHANGES = Statement(
    """SELECT f.path, f.version FROM lakeward_change_file f
    LEFT JOIN lakeward_commit c ON c.table_id = f.table_id AND c.version = f.version
    WHERE f.table_id = :table_id AND c.version IS NULL"""
)
_DEFINING = Statement(
    """SELECT version, definition_id FROM lakeward_commit
    WHERE table_id = :table_id AND definition_id IS NOT NULL ORDER BY version"""
)
_DEFINITIONS = Statement(
    """SELECT definition_id, from_version, until_version, body FROM lakeward_definition
    WHERE table_id = :table_id ORDER BY definition_id"""
)
_PATHS = Statement(
    """SELECT path, deletion_vector FROM lakeward_file WHERE table_id = :table_id
    UNION ALL SELECT path, NULL FROM lakeward_change_file WHERE table_id = :table_id"""
)
_LOCATIONS = Statement("SELECT location FROM lakeward_head WHERE table_id <> :table_id")
_FILES = Statement(
    """SELECT added_version, ordinal, removed_version, path, size, row_count, modified_ms,
        partition, stats, deletion_vector, extra FROM lakeward_file WHERE table_id = :table_id"""
)
_STATS: Final = """SELECT table_id, field_id, level, min_key, added_version, ordinal, max_key, nulls
    FROM lakeward_file_stat WHERE table_id = :table_id"""
_ALL_STATS = Statement(_STATS)
_FIELD_STATS = Statement(f"{_STATS} AND field_id = :field_id")
# Dropped tables keep their commits, so they count as members too.
_MEMBERS = Statement(
    """SELECT c.transaction_id, c.table_id, c.version, c.info, t.state FROM lakeward_commit c
    LEFT JOIN lakeward_transaction t ON t.transaction_id = c.transaction_id
    ORDER BY c.transaction_id, c.table_id, c.version"""
)
# A run of a pipeline may have taken in files without a row to write, and setting a policy writes no
# version of a table.
_EMPTY = Statement(
    """SELECT t.transaction_id FROM lakeward_transaction t
    LEFT JOIN lakeward_commit c ON c.transaction_id = t.transaction_id
    WHERE t.state = 'ratified' AND c.version IS NULL
    AND NOT EXISTS (SELECT 1 FROM lakeward_run r WHERE r.run_id = t.transaction_id)
    AND NOT EXISTS
      (SELECT 1 FROM lakeward_policy p WHERE p.transaction_id = t.transaction_id)"""
)
_PINS = Statement(
    """SELECT pin_id, min(actor), count(*), max(lease_until_ms) FROM lakeward_pin
    GROUP BY pin_id ORDER BY pin_id"""
)


def version_range(session: Session, table_id: int) -> tuple[int | None, int | None]:
    """The first and the newest version of a table."""
    first, newest = session.row(_RANGE, {"table_id": table_id})
    return first, newest


def version_gaps(session: Session, table_id: int) -> Iterator[Any]:
    """Pairs of versions between which others are missing."""
    return _all(session, _GAPS, table_id=table_id)


def times_backwards(session: Session, table_id: int) -> Iterator[Any]:
    """Versions that are not later than the one before: version, its time, the earlier time."""
    return _all(session, _BACKWARDS, table_id=table_id)


def bad_file_ranges(session: Session, table_id: int) -> Iterator[Any]:
    """Files added or removed by versions that do not exist or are out of order."""
    return _all(session, _BAD_RANGES, table_id=table_id, live=LIVE)


def files_added_twice(session: Session, table_id: int) -> Iterator[Any]:
    """Files added again while they are live: path, version, version that adds them again."""
    return _all(session, _OVERLAPS, table_id=table_id)


def lost_applications(session: Session, table_id: int) -> list[Any]:
    """Application transactions of versions that do not exist: application and version."""
    return session.rows(_LOST_APPLICATIONS, {"table_id": table_id})


def lost_change_files(session: Session, table_id: int) -> list[Any]:
    """Change files of versions that do not exist: path and version."""
    return session.rows(_LOST_CHANGES, {"table_id": table_id})


def defining_versions(session: Session, table_id: int) -> dict[int, int]:
    """The versions that name a new definition, with its id."""
    return dict(session.rows(_DEFINING, {"table_id": table_id}))


def definition_rows(session: Session, table_id: int) -> list[Any]:
    """All definitions of a table: id, first version, version after the last, body as text."""
    return session.rows(_DEFINITIONS, {"table_id": table_id})


def known_paths(session: Session, table_id: int) -> Iterator[Any]:
    """Paths of all data files and change files of a table, with deletion vectors as text."""
    return _all(session, _PATHS, table_id=table_id)


def other_locations(session: Session, table_id: int) -> list[str]:
    """The locations of all other tables."""
    return [row[0] for row in session.rows(_LOCATIONS, {"table_id": table_id})]


def file_rows(session: Session, table_id: int) -> Iterator[Any]:
    """All files of a table, as `codec.file_of` reads them."""
    return _all(session, _FILES, table_id=table_id)


def statistics_rows(session: Session, table_id: int, field_id: int | None = None) -> Iterator[Any]:
    """The statistics index of a table, or of one of its fields, as `files.stat_rows` writes it."""
    if field_id is None:
        return _all(session, _ALL_STATS, table_id=table_id)
    return _all(session, _FIELD_STATS, table_id=table_id, field_id=field_id)


def members(session: Session) -> Iterator[Any]:
    """All versions by transaction: transaction, table, version, info as text, state."""
    return _all(session, _MEMBERS)


def ratified_without_versions(session: Session) -> list[str]:
    """Ratified transactions that no table has a version of."""
    return [row[0] for row in session.rows(_EMPTY)]


def pins(session: Session) -> list[Any]:
    """Pins: id, actor, number of tables, end of the lease."""
    return session.rows(_PINS)


def _all(session: Session, statement: Statement, **values: Any) -> Iterator[Any]:
    for chunk in session.stream(statement, values):
        yield from chunk
