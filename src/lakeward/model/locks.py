"""Locks on tables: who excludes whom, who waits for whom, and who waits in a circle.

Everything here is decided from one picture of who holds and who waits, so that all who look at the
same picture come to the same answer: the same queue, the same circle, the same one to give way.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from lakeward.errors import InvalidInput
from lakeward.model.clock import to_datetime


class LockMode(StrEnum):
    """How a table is held: by many for reading, or by one alone for writing."""

    READ = "read"
    WRITE = "write"

    @classmethod
    def of(cls, text: object) -> LockMode:
        """The mode of this name.

        Raises:
            InvalidInput: There is none.
        """
        try:
            return cls(str(text).lower())
        except ValueError as error:
            what = f"{text!r} is not a mode of a lock."
            raise InvalidInput(what, hint="Use 'read' or 'write'.") from error

    def excludes(self, other: LockMode) -> bool:
        """Whether two transactions cannot hold the table in these modes at once."""
        return LockMode.WRITE in (self, other)

    def covers(self, other: LockMode) -> bool:
        """Whether who holds the table in this mode needs not ask for the other."""
        return self is LockMode.WRITE or other is LockMode.READ


@dataclass(frozen=True, slots=True)
class Claim:
    """A lock that is held or waited for.

    Attributes:
        is_held: Whether it is held; else it is waited for.
        since_ms: Since when; whoever waits longer comes first.
        opened_ms: When the transaction began.
        lease_until_ms: Until when the transaction counts as alive.
    """

    table_id: int
    table: str
    mode: LockMode
    is_held: bool
    transaction_id: str
    actor: str
    process: str
    since_ms: int
    opened_ms: int
    lease_until_ms: int

    def is_before(self, other: Claim) -> bool:
        """Whether it comes first in the queue."""
        return (self.since_ms, self.transaction_id) < (other.since_ms, other.transaction_id)


Circle = tuple[tuple[Claim, Claim], ...]
"""Who waits, and for whom; the last one waits for the first one."""


@dataclass(frozen=True, slots=True)
class Claims:
    """Who holds and who waits, at one moment."""

    held: tuple[Claim, ...] = ()
    waiting: tuple[Claim, ...] = ()

    def blocking(self, wanted: Claim) -> list[Claim]:
        """Whom a claim must wait for: who holds the table, then who asked for it before.

        Who holds the table already waits for the others that hold it and for nobody else: whoever
        queues for the table waits for it.
        """
        others = [h for h in self.held if h.table_id == wanted.table_id]
        is_holder = any(h.transaction_id == wanted.transaction_id for h in others)
        if not is_holder:
            others += [
                w for w in self.waiting if w.table_id == wanted.table_id and w.is_before(wanted)
            ]
        return [
            o
            for o in others
            if o.transaction_id != wanted.transaction_id and o.mode.excludes(wanted.mode)
        ]

    def circle(self, transaction_id: str) -> Circle:
        """Transactions that wait for each other in a circle, of those tangled up with this one.

        Empty when this one's turn will come.
        """
        steps = {
            (wait.transaction_id, other.transaction_id): (wait, other)
            for wait in self.waiting
            for other in self.blocking(wait)
        }
        ahead = _reached(steps, transaction_id)
        behind = _reached([(to, start) for start, to in steps], transaction_id)
        tangle = ahead & behind
        graph = {
            node: sorted(to for start, to in steps if start == node and to in tangle)
            for node in sorted(tangle)
        }
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            # Each is waited for by the next, and the last is the first.
            around: list[str] = error.args[1][::-1]
            return tuple(steps[pair] for pair in pairwise(around))
        return ()


@dataclass(frozen=True, slots=True)
class LockWait:
    """Somebody who waits for a locked table."""

    transaction_id: str
    mode: LockMode
    actor: str
    process: str
    since: datetime


@dataclass(frozen=True, slots=True)
class TableLock:
    """A table that somebody holds.

    Attributes:
        table: Its name.
        mode: Held by many for reading, or by one for writing.
        transaction_id: Who holds it.
        actor: Whose transaction that is.
        process: Its host and process id.
        since: Since when.
        lease_left: How long it stays held if the process is gone; a live one renews it.
        waiters: Who waits for the table, first come first.
    """

    table: str
    mode: LockMode
    transaction_id: str
    actor: str
    process: str
    since: datetime
    lease_left: timedelta
    waiters: tuple[LockWait, ...] = ()


def gives_way(circle: Circle) -> str:
    """Of those who wait in a circle, the transaction that began last: it has the least to lose."""
    return max((w.opened_ms, w.transaction_id) for w, _ in circle)[1]


def table_locks(claims: Claims, now: int) -> list[TableLock]:
    """What the living hold, by the names of the tables, each with the living who wait for it."""
    waiting = [w for w in claims.waiting if w.lease_until_ms >= now]
    held = [h for h in claims.held if h.lease_until_ms >= now]
    return [
        TableLock(
            h.table,
            h.mode,
            h.transaction_id,
            h.actor,
            h.process,
            to_datetime(h.since_ms),
            timedelta(milliseconds=h.lease_until_ms - now),
            tuple(
                LockWait(w.transaction_id, w.mode, w.actor, w.process, to_datetime(w.since_ms))
                for w in waiting
                if w.table_id == h.table_id
            ),
        )
        for h in sorted(held, key=lambda h: (h.table, h.since_ms, h.transaction_id))
    ]


def _reached(steps: Iterable[tuple[str, str]], start: str) -> set[str]:
    """Whatever can be reached from a node by one step or more."""
    after: dict[str, set[str]] = {}
    for node, to in steps:
        after.setdefault(node, set()).add(to)
    found: set[str] = set()
    new = set(after.get(start, ()))
    while new:
        found |= new
        new = {to for node in new for to in after.get(node, ())} - found
    return found
