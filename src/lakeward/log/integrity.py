"""Queries by which the doctor checks that the log is consistent in itself."""

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
# Transactions that write no version of a table: runs of pipelines that took in files without a row
# to write, changes of policies, drops of tables, and positions of consumers and streams. Of drops
# and positions there is a row in `lakeward_once`, except in older stores.
_EMPTY = Statement(
    """SELECT t.transaction_id FROM lakeward_transaction t
    LEFT JOIN lakeward_commit c ON c.transaction_id = t.transaction_id
    WHERE t.state = 'ratified' AND c.version IS NULL
    AND NOT EXISTS (SELECT 1 FROM lakeward_run r WHERE r.run_id = t.transaction_id)
    AND NOT EXISTS
      (SELECT 1 FROM lakeward_policy p WHERE p.transaction_id = t.transaction_id)
    AND NOT EXISTS (SELECT 1 FROM lakeward_once o WHERE o.key = t.transaction_id)
    AND NOT EXISTS
      (SELECT 1 FROM lakeward_consumer n WHERE n.transaction_id = t.transaction_id)
    AND NOT EXISTS
      (SELECT 1 FROM lakeward_cursor u WHERE u.transaction_id = t.transaction_id)
    AND NOT EXISTS (SELECT 1 FROM lakeward_audit a WHERE a.action = 'DROP TABLE'
      AND a.detail = '{"transaction":"' || t.transaction_id || '"}')"""
)
_PINS = Statement(
    """SELECT pin_id, min(actor), count(*), max(lease_until_ms) FROM lakeward_pin
    GROUP BY pin_id ORDER BY pin_id"""
)


def version_range(session: Session, table_id: int) -> tuple[int | None, int | None]:
    """Return the oldest and the newest version of a table that are in the log."""
    first, newest = session.row(_RANGE, {"table_id": table_id})
    return first, newest


def version_gaps(session: Session, table_id: int) -> Iterator[Any]:
    """Yield the gaps in a table's versions: the version before, the version after."""
    return _all(session, _GAPS, table_id=table_id)


def times_backwards(session: Session, table_id: int) -> Iterator[Any]:
    """Yield versions not later than the version before: version, time, earlier time."""
    return _all(session, _BACKWARDS, table_id=table_id)


def bad_file_ranges(session: Session, table_id: int) -> Iterator[Any]:
    """Yield files whose versions are missing or out of order: path, added, removed."""
    return _all(session, _BAD_RANGES, table_id=table_id, live=LIVE)


def files_added_twice(session: Session, table_id: int) -> Iterator[Any]:
    """Yield files added again while live: path, version, version that adds them again."""
    return _all(session, _OVERLAPS, table_id=table_id)


def lost_applications(session: Session, table_id: int) -> list[Any]:
    """Return application transactions of missing versions: application, version."""
    return session.rows(_LOST_APPLICATIONS, {"table_id": table_id})


def lost_change_files(session: Session, table_id: int) -> list[Any]:
    """Return change files of missing versions: path, version."""
    return session.rows(_LOST_CHANGES, {"table_id": table_id})


def defining_versions(session: Session, table_id: int) -> dict[int, int]:
    """Return the versions that introduce a definition, each with the definition's id."""
    return dict(session.rows(_DEFINING, {"table_id": table_id}))


def definition_rows(session: Session, table_id: int) -> list[Any]:
    """Return all definitions of a table: id, first version, version after the last, JSON."""
    return session.rows(_DEFINITIONS, {"table_id": table_id})


def known_paths(session: Session, table_id: int) -> Iterator[Any]:
    """Yield the path and the deletion vector (JSON) of every data and change file of a table."""
    return _all(session, _PATHS, table_id=table_id)


def other_locations(session: Session, table_id: int) -> list[str]:
    """Return the locations of all tables but this one."""
    return [row[0] for row in session.rows(_LOCATIONS, {"table_id": table_id})]


def file_rows(session: Session, table_id: int) -> Iterator[Any]:
    """Yield the rows of all files of a table, in the form that `codec.file_of` reads."""
    return _all(session, _FILES, table_id=table_id)


def statistics_rows(session: Session, table_id: int, field_id: int | None = None) -> Iterator[Any]:
    """Yield rows of a table's or a field's statistics index, as `index_rows` makes them."""
    if field_id is None:
        return _all(session, _ALL_STATS, table_id=table_id)
    return _all(session, _FIELD_STATS, table_id=table_id, field_id=field_id)


def members(session: Session) -> Iterator[Any]:
    """Yield every commit, ordered by transaction: transaction, table id, version, info, state."""
    return _all(session, _MEMBERS)


def ratified_without_versions(session: Session) -> list[str]:
    """Return the ids of ratified transactions without a commit, pipeline run or policy."""
    return [row[0] for row in session.rows(_EMPTY)]


def pins(session: Session) -> list[Any]:
    """Return the pins: id, actor, number of tables, end of the lease."""
    return session.rows(_PINS)


def _all(session: Session, statement: Statement, **values: Any) -> Iterator[Any]:
    for chunk in session.stream(statement, values):
        yield from chunk
