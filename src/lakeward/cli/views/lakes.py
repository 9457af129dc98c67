"""Answers about the lake as a whole, as text: tables, outcomes, locks, cuts, transactions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rich.console import RenderableType
from rich.text import Text

from lakeward.cli.output import words

if TYPE_CHECKING:
    from lakeward.lake.records import (
        Cut,
        LockWait,
        Outcome,
        Rebuilt,
        TableInfo,
        TableLock,
        TransactionRecord,
    )

_LOCK_COLUMNS: Final = ("table", "", "mode", "transaction", "actor", "process", "since", "lease")


def tables(lake: str, found: Sequence[TableInfo]) -> Iterator[RenderableType]:
    """Show all tables of a lake, one line per table."""
    if not found:
        yield Text(f"The lake {lake} has no tables yet.")
        return
    yield words.grid(
        ["table", "format", "version", "rows", "files", "size", "on disk", "committed"],
        (
            (
                t.name,
                t.format if t.guarded else f"{t.format}, open",
                str(t.version),
                words.number(t.rows),
                words.number(t.files),
                words.size(t.bytes),
                words.size(t.disk_bytes),
                words.moment(t.timestamp),
            )
            for t in found
        ),
        right=("version", "rows", "files", "size", "on disk"),
    )


def published(versions: Mapping[str, int]) -> Iterator[RenderableType]:
    """Show how many versions of each table were published."""
    if not versions:
        yield Text("Everything is published; nothing was owed.")
    for name, count in versions.items():
        yield words.line(f"{name}: published {words.counted(count, 'version')}")


def rebuilt(found: Rebuilt) -> Iterator[RenderableType]:
    """Show the tables of a rebuilt store, then what is missing."""
    count = words.counted(len(found.tables), "table")
    yield words.line(f"The store {found.lake} is rebuilt with {count}.")
    yield from words.versions(found.tables)
    for location, reason in found.skipped.items():
        yield words.line(f"left out: {location}, because {reason}", words.WARNING)
    for torn in found.incomplete:
        what = f"{torn.transaction_id} has {torn.tables} of its {torn.expected} tables"
        yield words.line(f"torn: transaction {what}", "red")


def outcome(found: Outcome) -> Iterator[RenderableType]:
    """Show the outcome of a transaction."""
    yield words.line(f"Transaction {found.transaction_id} is {_state(found)}.")
    yield from words.versions(found.versions)


def locks(found: Sequence[TableLock]) -> Iterator[RenderableType]:
    """Show the locks, one line per transaction that holds or waits."""
    if not found:
        yield Text("No table is locked.")
        return
    yield words.grid(_LOCK_COLUMNS, _lock_lines(found), right=("lease",))


def _lock_lines(found: Sequence[TableLock]) -> Iterator[tuple[str, ...]]:
    last = {lock.table: lock for lock in found}
    for lock in found:
        yield (lock.table, "held", *_lock_cells(lock), f"{lock.lease_left_seconds:.1f} s")
        if lock is last[lock.table]:
            # All who share a table have the same waiters, so these are listed once.
            for wait in lock.waiters:
                yield (lock.table, "waits", *_lock_cells(wait), "")


def _lock_cells(source: TableLock | LockWait) -> tuple[str, ...]:
    since = words.moment(source.since)
    return (source.mode.value, source.transaction_id, source.actor, source.process, since)


def cut(found: Cut) -> Iterator[RenderableType]:
    """Show one cut over all tables, one line per table."""
    if not found.tables:
        yield Text("There is no table in the cut.")
        return
    yield words.grid(
        ["table", "version", "committed"],
        ((t.table, str(t.version), words.moment(t.timestamp)) for t in found.tables),
        right=("version",),
    )


def transactions(found: Sequence[TransactionRecord], *, more: bool) -> Iterator[RenderableType]:
    """Show transactions, one line per transaction; `more` if older ones exist."""
    if not found:
        yield Text("There is no such transaction.")
        return
    # Only open transactions have a lease worth showing.
    leased = ["lease until"] if any(t.ended is None for t in found) else []
    yield words.grid(
        ["transaction", "state", "isolation", "opened", *leased, "actor", "tables", "message"],
        (
            (
                t.transaction_id,
                _state(t),
                t.isolation,
                words.moment(t.opened),
                *(words.moment(None if t.ended else t.lease_until) for _ in leased),
                t.actor,
                ", ".join(t.versions),
                t.message or "",
            )
            for t in found
        ),
    )
    if more:
        yield Text("Older transactions follow; --limit shows more.", style="dim")


def transaction(found: TransactionRecord) -> Iterator[RenderableType]:
    """Show one transaction: its outcome, and the versions that it wrote."""
    yield words.heading(f"Transaction {found.transaction_id}")
    pairs: list[tuple[str, RenderableType]] = [
        ("state", _state(found)),
        ("isolation", found.isolation),
        ("actor", found.actor),
        ("process", found.process or "–"),
        ("opened", words.moment(found.opened)),
    ]
    if found.ended is None:
        pairs.append(("lease until", words.moment(found.lease_until)))
    else:
        pairs.append(("ended", words.moment(found.ended)))
    if found.message:
        pairs.append(("message", found.message))
    yield words.facts(pairs)
    yield from words.versions(found.versions)


def _state(source: TransactionRecord | Outcome) -> str:
    return "committed" if source.committed else source.state.value.replace("_", " ")
