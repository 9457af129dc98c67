"""Returns records of the whole lake, filtered by the tables that a caller has access to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from lakeward.errors import TransactionNotFound
from lakeward.lake.records import (
    Attainment,
    JobRecord,
    Quality,
    RecentChange,
    Streams,
    Tag,
    TransactionRecord,
    ViolationRecord,
)
from lakeward.model.records import to_json
from lakeward.web.access import Caller
from lakeward.web.hiding import with_names_only

_Entry = TypeVar("_Entry")
_Seen = TypeVar("_Seen")
_MOST_READ: Final = 20_000
"""The most entries of the log that are read to fill a list for a caller who sees some of them."""


def seen_transaction(by: Caller, transaction_id: str) -> dict[str, Any]:
    """Return a transaction with only the tables that the caller has access to.

    Raises:
        TransactionNotFound: There is no such transaction, or the caller has access to none of its
            tables.
    """
    seen = seen_record(by, by.lake.transaction_record(transaction_id))
    if seen is None:
        raise unknown_transaction(transaction_id)
    return seen


def unknown_transaction(transaction_id: str) -> TransactionNotFound:
    """Return the error for a transaction that the caller has access to no table of."""
    what = f"The log knows no transaction {transaction_id}, or it is not open to you."
    return TransactionNotFound(what, transaction_id=transaction_id)


def seen_transactions(by: Caller, limit: int, state: str | None = None) -> list[dict[str, Any]]:
    """Return the newest `limit` transactions that have tables the caller has access to."""
    return _filled(
        lambda most: by.lake.transactions(state=state, limit=most),
        lambda record: seen_record(by, record),
        limit,
    )


def seen_changes(by: Caller, limit: int) -> list[RecentChange]:
    """Return the newest transactions of the last 24 hours with tables the caller has access to."""

    def seen(change: RecentChange) -> RecentChange | None:
        if by.sees_everything:
            return change
        tables = tuple(one for one in change.tables if by.sees(one.table))
        return replace(change, tables=tables, members=len(tables)) if tables else None

    return _filled(lambda most: by.lake.recent_changes(limit=most), seen, limit)


def seen_run(by: Caller, run_id: str) -> dict[str, Any]:
    """Return the record and the bundle of a run of a pipeline; paths have no directories.

    Raises:
        NotFound: There is no such run.
    """
    found = by.lake.run_record(run_id)
    return {**to_json(found), **with_names_only(found.bundle)}


def seen_runs(by: Caller, limit: int) -> list[dict[str, Any]]:
    """Return the newest runs of pipelines; `has_transaction` says whether one was registered."""

    def has_transaction(run_id: str) -> bool:
        try:
            by.lake.transaction_record(run_id)
        except TransactionNotFound:
            return False
        return True

    return [
        {**to_json(one), "has_transaction": has_transaction(one.run)}
        for one in by.lake.runs(limit=limit)
    ]


def seen_tags(by: Caller) -> list[Tag]:
    """Return the tags all of whose tables the caller has access to."""
    return [tag for tag in by.lake.tags() if all(map(by.sees, tag.names_now.values()))]


def seen_jobs(by: Caller, limit: int, **wanted: Any) -> list[JobRecord]:
    """Return the newest `limit` runs of maintenance on tables that the caller has access to.

    `wanted` are arguments of `lake.jobs`. Runs on no single table are for callers who see all.
    """

    def seen(job: JobRecord) -> JobRecord | None:
        return job if (by.sees_everything if job.table is None else by.sees(job.table)) else None

    return _filled(lambda most: by.lake.jobs(limit=most, **wanted), seen, limit)


def seen_violations(by: Caller, limit: int, table: str | None = None) -> list[ViolationRecord]:
    """Return the newest `limit` violations of constraints of tables the caller has access to."""
    return _filled(
        lambda most: by.lake.violations(table=table, limit=most),
        lambda one: one if by.sees(one.table) else None,
        limit,
    )


def seen_record(by: Caller, record: TransactionRecord) -> dict[str, Any] | None:
    """Return a transaction with only the tables that the caller has access to; None if none."""
    if by.sees_everything:
        return dict(to_json(record))
    names = {then: now for then, now in record.names_now.items() if by.sees(now)}
    versions = {name: v for name, v in record.versions.items() if name in names}
    dropped = [name for name in record.dropped if name in names]
    shown = {"versions": versions, "names_now": names, "dropped": dropped}
    return {**to_json(record), **shown} if versions else None


def seen_quality(by: Caller, limit: int | None = None) -> list[Quality]:
    """Return the last measurements of tables with expectations that the caller has access to."""
    return [one for one in by.lake.latest_quality() if by.sees(one.table)][:limit]


def seen_levels(by: Caller) -> list[Attainment]:
    """Return the service levels of tables that the caller has access to.

    Service levels of pipelines are only for callers who see all tables.
    """
    if by.sees_everything:
        return by.lake.sla()
    open_to = {table.name for table in by.tables()}
    return [one for one in by.lake.sla() if one.subject in open_to]


def seen_streams(by: Caller) -> Streams:
    """Return the sinks of tables that the caller has access to.

    Consumers read all tables, so they are only for callers who see all of them.
    """
    found = by.lake.streams()
    sinks = tuple(one for one in found.sinks if by.sees(one.table))
    return Streams(sinks, found.consumers if by.sees_everything else ())


def _filled(
    read: Callable[[int], Sequence[_Entry]], seen: Callable[[_Entry], _Seen | None], limit: int
) -> list[_Seen]:
    """Return the newest `limit` entries that `seen` returns; read older ones until they are found.

    `read` returns the newest entries, at most as many as its argument.
    """
    most = limit
    while True:
        entries = read(most)
        found = [one for one in map(seen, entries) if one is not None]
        if len(found) >= limit or len(entries) < most or most >= _MOST_READ:
            return found[:limit]
        most = min(4 * most, _MOST_READ)
