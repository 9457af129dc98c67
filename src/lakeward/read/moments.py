"""Resolves points in a table's history: a version, a time, a tag or a transaction.

Used by `at`, restores, changes, and `AS OF` in SQL. Lookups are counted and timed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Final

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput, NotFound, TransactionNotFound, VersionNotFound
from lakeward.log import commits, positions, tags, transactions
from lakeward.log.database import Session
from lakeward.model import arguments
from lakeward.model.clock import to_ms
from lakeward.model.commit import Head, TransactionState
from lakeward.model.counters import Counters
from lakeward.model.file import LIVE
from lakeward.read import snapshot as snapshots
from lakeward.read.snapshot import TableSnapshot

_LISTED: Final = 5


def at(
    context: LakeContext,
    session: Session,
    head: Head,
    *,
    version: int | None = None,
    timestamp: datetime | str | int | None = None,
    tag: str | None = None,
    transaction: str | None = None,
) -> TableSnapshot:
    """Return a table at one point of its history; without arguments, at its newest version.

    For a transaction, that is the state right after it, whether or not it changed this table.
    Raises `VersionNotFound`, `TransactionNotFound`, `NotFound` for a tag, and `InvalidInput`.
    """
    check_one(version=version, timestamp=timestamp, tag=tag, transaction=transaction)
    if version is not None:
        arguments.whole(version, "version", least=-LIVE)
        with counted(context.counters, "version"):
            return snapshots.at_version(context, session, head, version)
    if timestamp is not None:
        with counted(context.counters, "timestamp"):
            return snapshots.at_time(context, session, head, timestamp)
    if tag is not None:
        arguments.text(tag, "tag")
        with counted(context.counters, "tag"):
            return snapshots.at_version(context, session, head, version_of_tag(session, head, tag))
    if transaction is not None:
        arguments.text(transaction, "transaction")
        with counted(context.counters, "transaction"):
            return _at_transaction(context, session, head, transaction)
    return snapshots.latest(context, session, head)


def named(
    context: LakeContext, session: Session, head: Head, place: datetime | str | int
) -> TableSnapshot:
    """Return a table at a point of any kind.

    An integer is a version, a datetime is a time. Text is the name of a tag, the id of a
    transaction or a time in ISO 8601, looked up in this order.
    """
    if isinstance(place, bool) or not isinstance(place, datetime | str | int):
        raise no_point(place)
    if isinstance(place, int):
        return at(context, session, head, version=place)
    if isinstance(place, datetime):
        return at(context, session, head, timestamp=place)
    arguments.text(place, "place")
    if tags.find(session, place) is not None:
        return at(context, session, head, tag=place)
    if positions.of_transaction(session, place) is not None:
        return at(context, session, head, transaction=place)
    try:
        to_ms(place)
    except InvalidInput:
        raise unknown(place) from None
    return at(context, session, head, timestamp=place)


def check_one(**given: object) -> None:
    """Raise `InvalidInput` if more than one argument is given."""
    found = [f"{name}=" for name, value in given.items() if value is not None]
    if len(found) > 1:
        what = f"Give only one of {' and '.join(found)}."
        raise InvalidInput(what)


def version_of_tag(session: Session, head: Head, tag: str) -> int:
    """Return the version of a table that a tag refers to.

    Raises `NotFound`, `VersionNotFound`.
    """
    version = tags.version_of(session, tag, head.table_id)
    if version is not None:
        return version
    if tags.find(session, tag) is None:
        raise no_tag(session, tag)
    what = f"The tag {tag!r} names no version of table {head.name}."
    hint = "It was made for other tables, or before this one was. lake.tags() shows what it has."
    raise VersionNotFound(what, hint=hint, table=str(head.name), tag=tag)


def no_tag(session: Session, name: str) -> NotFound:
    """Return the error for a tag that does not exist."""
    known = [t.name for t in tags.every(session)]
    hint = f"It has {', '.join(known)}." if known else "lake.tag makes one."
    if len(known) > _LISTED:
        hint = "`lakeward tag list` shows those that there are."
    return NotFound(f"The lake has no tag {name!r}.", hint=hint, tag=name)


def wait_for_earlier(context: LakeContext, transaction_id: str | None) -> None:
    """Wait for transactions that precede a given one and are not visible yet.

    Call it before the session in which the state after that transaction is read: otherwise a later
    read of the same state could include more transactions.
    """
    database = context.database
    if transaction_id is None or database.dialect == "sqlite":
        return
    with database.read() as session:
        place = positions.of_transaction(session, transaction_id)
    if place is not None:
        positions.wait_until_settled(database, place.position)


def no_commit(session: Session, transaction_id: str) -> TransactionNotFound:
    """Return the error for a transaction that does not exist or committed nothing."""
    known = transactions.get(session, transaction_id)
    if known is None:
        what = f"The log has no transaction {transaction_id!r}."
    elif known.state is TransactionState.RATIFIED:
        what = f"Transaction {transaction_id} changed no table."
    else:
        what = f"Transaction {transaction_id} is {known.state.value.replace('_', ' ')}."
    hint = "`lakeward transactions` lists the newest."
    return TransactionNotFound(what, hint=hint, transaction_id=transaction_id)


def unknown(place: str) -> TransactionNotFound:
    """Return the error for text that is no point in the history."""
    what = f"{place!r} is neither a tag, nor a committed transaction of this lake, nor a moment."
    hint = "lake.tags() and `lakeward transactions` list them; moments are ISO 8601."
    return TransactionNotFound(what, hint=hint, transaction_id=place)


def no_point(value: object) -> InvalidInput:
    """Return the error for a value that cannot be a point in the history."""
    what = f"{value!r} is not a version, a time, a tag or a transaction."
    return InvalidInput(what, hint="Versions are whole numbers, the others text or datetimes.")


@contextmanager
def counted(counters: Counters, kind: str) -> Iterator[None]:
    """Count a lookup of a kind, and the microseconds that it takes."""
    begun = time.perf_counter_ns()
    try:
        yield
    finally:
        count(counters, kind, begun)


def count(counters: Counters, kind: str, begun: int) -> None:
    """Count a lookup of a kind that began at `begun`, a value of `perf_counter_ns`."""
    counters.add(f"lookups_by_{kind}")
    counters.add(f"lookups_by_{kind}_us", (time.perf_counter_ns() - begun) // 1000)


def _at_transaction(
    context: LakeContext, session: Session, head: Head, transaction_id: str
) -> TableSnapshot:
    members = commits.members(session, transaction_id)
    own = next((v for _, table_id, v in members if table_id == head.table_id), None)
    if own is not None:
        return snapshots.at_version(context, session, head, own)
    place = positions.of_transaction(session, transaction_id)
    if place is None:
        raise no_commit(session, transaction_id)
    if place.position == positions.NOWHERE:
        return snapshots.at_time(context, session, head, place.timestamp_ms)
    version = positions.version_at(session, head.table_id, place)
    if version is None:
        what = f"Table {head.name} had no version after transaction {transaction_id}."
        hint = "It was created, or adopted, later."
        facts = {"table": str(head.name), "transaction_id": transaction_id}
        raise VersionNotFound(what, hint=hint, **facts)
    return snapshots.at_version(context, session, head, version)
