"""The commit order of all transactions of a lake, and the position up to which it is final.

A transaction takes its position after it has locked the heads of all its tables, so positions agree
with the versions of every table. SQLite has one writer at a time, so positions become visible in
order. PostgreSQL assigns them from a sequence, without waiting, so a transaction with a lower
position may commit after one with a higher position. Therefore each transaction holds a shared
advisory lock, from before it takes its position until it ends, whose key is the newest position at
that time; its own position is greater. Readers may process positions up to the lowest key that is
held: see `settled`. A transaction that is rolled back leaves a gap.

A drop of a table takes a position too, which its head keeps, even if the table is brought back: no
position is assigned twice.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from lakeward.errors import UnsupportedFeature
from lakeward.log import commits
from lakeward.log.codec import info_of
from lakeward.log.database import Database, Session
from lakeward.log.statement import Statement
from lakeward.model.commit import CommitInfo
from lakeward.model.file import LIVE
from lakeward.model.names import TableName

NOWHERE: Final = 0
"""The position of commits that are in no stream; positions of transactions are greater."""
_FIRST: Final = 1
_KEY_MASK: Final = 2**31 - 1
_PAGE: Final = 500
_POLL_SECONDS: Final = 0.002
_TAKE: Final = {
    "sqlite": Statement(
        """SELECT max(coalesce((SELECT max(position) FROM lakeward_commit), 1),
            coalesce((SELECT max(dropped_position) FROM lakeward_head), 1)) + 1"""
    ),
    "postgresql": Statement(
        f"""WITH held AS MATERIALIZED (
            SELECT pg_advisory_xact_lock_shared(
                CAST(CAST('lakeward_position' AS regclass) AS oid)::int4,
                (last_value & {_KEY_MASK})::int4)
            FROM lakeward_position)
        SELECT nextval('lakeward_position') FROM held, generate_series(1, :count)"""  # noqa: S608
    ),
}
_ASSIGNED = Statement("SELECT last_value, pg_is_in_recovery() FROM lakeward_position")
_HELD = Statement(
    """SELECT objid::bigint FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 2 AND objid::bigint < 2147483648
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND classid = CAST(CAST('lakeward_position' AS regclass) AS oid)"""
)
_RENUMBER = Statement(
    """UPDATE lakeward_commit SET position = ranked.place FROM (
        SELECT table_id AS found_id, version AS found_version,
            dense_rank() OVER (ORDER BY timestamp_ms, transaction_id) + 1 AS place
        FROM lakeward_commit) ranked
    WHERE lakeward_commit.table_id = ranked.found_id
    AND lakeward_commit.version = ranked.found_version"""
)
_CONTINUE = Statement(
    """SELECT setval('lakeward_position',
        greatest((SELECT coalesce(max(position), 1) FROM lakeward_commit),
                 (SELECT last_value FROM lakeward_position)), true)"""
)
_CONTINUE_AFTER_DROPS = Statement(
    """SELECT setval('lakeward_position',
        greatest((SELECT coalesce(max(dropped_position), 1) FROM lakeward_head),
                 (SELECT last_value FROM lakeward_position)), true)"""
)
_BETWEEN = Statement(
    """SELECT position, table_id, version, timestamp_ms, transaction_id, operation, actor, info
    FROM lakeward_commit WHERE position > :after AND position <= :until
    ORDER BY position, table_id LIMIT :most"""
)
# The index of positions is read from its end, so an old log costs no more than a new one.
_RECENT = Statement(
    """SELECT c.position, c.table_id, c.version, c.timestamp_ms, c.transaction_id, c.operation,
      c.actor, c.info, h.namespace, h.name, CASE WHEN h.dropped_ms IS NULL THEN 0 ELSE 1 END
    FROM (SELECT DISTINCT position FROM lakeward_commit WHERE position > 0
        ORDER BY position DESC LIMIT :limit) newest
    JOIN lakeward_commit c ON c.position = newest.position
    JOIN lakeward_head h ON h.table_id = c.table_id
    ORDER BY c.position DESC, c.table_id LIMIT :most"""
)
_LAST = Statement("SELECT max(position) FROM lakeward_commit")
_NEWEST_PLACE = Statement(
    """SELECT position, timestamp_ms FROM (
        SELECT position, timestamp_ms FROM lakeward_commit
        WHERE position > 0 ORDER BY position DESC LIMIT 1) newest
    UNION ALL SELECT dropped_position, at_ms FROM (
        SELECT dropped_position, coalesce(dropped_ms, timestamp_ms) AS at_ms FROM lakeward_head
        WHERE dropped_position IS NOT NULL ORDER BY dropped_position DESC LIMIT 1) dropped
    ORDER BY 1 DESC LIMIT 1"""
)
_OF_TRANSACTION = Statement(
    """SELECT position, timestamp_ms FROM lakeward_commit
    WHERE transaction_id = :transaction_id ORDER BY position LIMIT 1"""
)
_FIRST_AFTER = Statement(
    """SELECT version FROM lakeward_commit
    WHERE table_id = :table_id AND version > :version AND position > :position
    ORDER BY version LIMIT 1"""
)
_LAST_UP_TO = Statement(
    """SELECT version FROM lakeward_commit
    WHERE table_id = :table_id AND version <= :version AND position BETWEEN 1 AND :position
    ORDER BY version DESC LIMIT 1"""
)
_SINCE = Statement(
    "SELECT min(position) FROM lakeward_commit WHERE timestamp_ms >= :moment AND position > 0"
)


@dataclass(frozen=True, slots=True)
class Place:
    """The position of a transaction in the commit order, and its time."""

    position: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Placed:
    """A commit of one table, with the position of its transaction."""

    position: int
    table_id: int
    version: int
    timestamp_ms: int
    info: CommitInfo


@dataclass(frozen=True, slots=True)
class Named:
    """A commit with the name that its table has now, or had last if it was dropped."""

    commit: Placed
    table: TableName
    is_dropped: bool


def take(session: Session) -> int:
    """Take the next position; the caller has locked the heads of all tables of the transaction."""
    return take_many(session, 1)[0]


def take_many(session: Session, count: int) -> list[int]:
    """Take several positions; return them in ascending order."""
    session.is_placed = True
    rows = session.rows(_TAKE[session.dialect], {"count": count})
    if session.dialect == "sqlite":
        first = int(rows[0][0])
        return list(range(first, first + count))
    return sorted(int(row[0]) for row in rows)


def settled(database: Database) -> int:
    """Return the position up to which no new transaction can appear.

    On PostgreSQL this does not wait. Every position up to the newest one assigned before the locks
    are read belongs to a transaction that is visible by now, was rolled back, or holds a lock with
    a lower key.

    Raises:
        UnsupportedFeature: The store is a standby, which cannot see the locks of its primary.
    """
    if database.dialect == "sqlite":
        return LIVE
    with database.read() as session:
        assigned, is_standby = session.row(_ASSIGNED)
        if is_standby:
            what = f"The order of transactions is not known on a standby, {database.label}."
            raise UnsupportedFeature(what, hint="Read the changes of the lake from the primary.")
        held = [int(row[0]) for row in session.rows(_HELD)]
        later = int(session.row(_ASSIGNED)[0])
    return min([int(assigned), *(later - ((later - key) & _KEY_MASK) for key in held)])


def wait_until_settled(database: Database, position: int) -> None:
    """Wait until no transaction with a lower position can still appear.

    The position belongs to a visible transaction. A read-only store cannot always decide this:
    there, wait for the transactions that are known to be under way; a standby knows of none.
    """
    if database.dialect == "sqlite":
        return
    if database.read_only is not None:
        database.wait_for_writers()
        return
    while settled(database) < position:
        time.sleep(_POLL_SECONDS)


def pages(database: Database, after: int) -> Iterator[list[list[Placed]]]:
    """Yield pages of settled transactions after a position, in order, each as a list of commits."""
    until = settled(database)
    most = _PAGE
    while after < until:
        with database.read() as session:
            params = {"after": after, "until": until, "most": most}
            rows = session.rows(_BETWEEN, params)
        groups = [list(group) for _, group in groupby(map(_placed, rows), lambda p: p.position)]
        if len(rows) == most:
            # The last transaction may have more commits on the next page.
            groups.pop()
            if not groups:
                most *= 2
                continue
        if not groups:
            return
        after = groups[-1][0].position
        yield groups
        if len(rows) < most:
            return
        most = _PAGE


def recent(session: Session, limit: int, most: int) -> list[list[Named]]:
    """Return the newest visible transactions, newest first, each as a list of commits.

    Args:
        session: The session.
        limit: At most so many transactions.
        most: At most so many commits, so that the oldest transaction may lack some.
    """
    rows = session.rows(_RECENT, {"limit": limit, "most": most})
    found = (
        Named(_placed(row), TableName(namespace, name), bool(is_dropped))
        for *row, namespace, name, is_dropped in rows
    )
    return [list(group) for _, group in groupby(found, lambda one: one.commit.position)]


def last(session: Session) -> int:
    """Return the newest visible position of a commit; `NOWHERE` if there is none."""
    return int(session.row(_LAST)[0] or NOWHERE)


def newest(session: Session) -> Place | None:
    """Return the place of the newest visible commit or drop, or None if there is none."""
    found = session.row(_NEWEST_PLACE)
    return None if found is None else Place(*found)


def of_transaction(session: Session, transaction_id: str) -> Place | None:
    """Return the place of a transaction; None if it changed no table."""
    found = session.row(_OF_TRANSACTION, {"transaction_id": transaction_id})
    return None if found is None else Place(*found)


def version_at(session: Session, table_id: int, place: Place) -> int | None:
    """Return a table's newest version at or before a place in the commit order, or None.

    The search begins at the version of that time, which is the right one, or near it, unless clocks
    differ: positions and times both grow with the versions of a table.
    """
    near = commits.version_at(session, table_id, place.timestamp_ms)
    key = {"table_id": table_id, "position": place.position}
    later = session.row(_FIRST_AFTER, {**key, "version": -1 if near is None else near})
    high = LIVE if later is None else later[0] - 1
    found = session.row(_LAST_UP_TO, {**key, "version": high})
    return None if found is None else int(found[0])


def before(session: Session, moment_ms: int) -> int:
    """Return the position right before the first commit at or after a time.

    If there is no such commit yet, return the position of the newest commit.
    """
    found = session.row(_SINCE, {"moment": moment_ms})[0]
    return last(session) if found is None else int(found) - 1


def create(session: Session) -> None:
    """Create the sequence of positions, if the database uses one."""
    if session.dialect == "postgresql":
        session.script("CREATE SEQUENCE IF NOT EXISTS lakeward_position")
        session.script(f"SELECT setval('lakeward_position', {_FIRST}, true)")


def renumber(session: Session) -> None:
    """Assign positions to all transactions by their times, when a store is migrated or rebuilt."""
    session.run(_RENUMBER)
    if session.dialect == "postgresql":
        session.row(_CONTINUE)


def continue_after(session: Session) -> None:
    """Advance the sequence past positions that were inserted explicitly."""
    if session.dialect == "postgresql":
        session.row(_CONTINUE)
        session.row(_CONTINUE_AFTER_DROPS)


def _placed(row: Any) -> Placed:
    position, table_id, version, timestamp_ms, transaction_id, operation, actor, info = row
    return Placed(
        position, table_id, version, timestamp_ms, info_of(transaction_id, operation, actor, info)
    )
