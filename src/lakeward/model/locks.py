"""Locks on tables: which modes exclude each other, the queue, and deadlocks.

Everything is computed from one list of holders and waiters, so that all processes that read the
same list find the same queue, deadlock and victim.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Final

from lakeward.errors import InvalidInput
from lakeward.model.clock import to_datetime
from lakeward.model.records import HIDDEN, in_json

PATIENCE_SECONDS: Final = 30.0
"""How long a transaction waits for a lock by default."""


class LockMode(StrEnum):
    """Shared for reading, exclusive for writing."""

    READ = "read"
    WRITE = "write"

    @classmethod
    def of(cls, text: object) -> LockMode:
        """Return the mode of this name; raise `InvalidInput` if there is none."""
        try:
            return cls(str(text).lower())
        except ValueError as error:
            what = f"{text!r} is not a mode of a lock."
            raise InvalidInput(what, hint="Use 'read' or 'write'.") from error

    def excludes(self, other: LockMode) -> bool:
        """Whether two transactions cannot hold locks of these modes on a table at the same time."""
        return LockMode.WRITE in (self, other)

    def covers(self, other: LockMode) -> bool:
        """Whether a holder of this mode has the rights of the other mode, too."""
        return self is LockMode.WRITE or other is LockMode.READ


@dataclass(frozen=True, slots=True)
class Claim:
    """A lock that is held or waited for; `lease_until_ms` is the lease of its transaction."""

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
        """Whether the claim precedes another in the queue."""
        return (self.since_ms, self.transaction_id) < (other.since_ms, other.transaction_id)


Cycle = tuple[tuple[Claim, Claim], ...]
"""Pairs of a waiting claim and a claim that blocks it; each blocker waits in the next pair."""


@dataclass(frozen=True, slots=True)
class Claims:
    """All held and waiting claims at one point in time."""

    held: tuple[Claim, ...] = ()
    waiting: tuple[Claim, ...] = ()

    def blocking(self, wanted: Claim) -> list[Claim]:
        """Return the claims that block a claim: holders of the table, and earlier waiters.

        A transaction that already holds the table waits only for other holders, because the waiters
        wait for this transaction.
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

    def deadlock(self, transaction_id: str) -> Cycle:
        """Return a deadlock that a transaction is part of; empty if there is none."""
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
            # Each blocks the next, and the last is the first.
            around: list[str] = error.args[1][::-1]
            return tuple(steps[pair] for pair in pairwise(around))
        return ()


@dataclass(frozen=True, slots=True)
class LockWait:
    """A transaction that waits for a locked table."""

    transaction_id: str
    mode: LockMode
    actor: str
    process: str
    since: datetime


@dataclass(frozen=True, slots=True)
class TableLock:
    """A locked table.

    Attributes:
        table: The table's name.
        mode: Shared for reading, or exclusive for writing.
        transaction_id: The transaction that holds the lock.
        actor: The user of that transaction.
        process: Its host and process id.
        since: When it got the lock.
        lease_left: After which time the lock expires if the process died; a live one renews it.
        waiters: The transactions that wait for the table, in order.
    """

    table: str
    mode: LockMode
    transaction_id: str
    actor: str
    process: str
    since: datetime
    lease_left: timedelta = field(metadata=HIDDEN)
    waiters: tuple[LockWait, ...] = ()

    @property
    @in_json
    def lease_left_seconds(self) -> float:
        """`lease_left` in seconds."""
        return self.lease_left.total_seconds()


def victim(cycle: Cycle) -> str:
    """Return the victim of a deadlock: the transaction that began last, which has least to lose."""
    return max((w.opened_ms, w.transaction_id) for w, _ in cycle)[1]


def table_locks(claims: Claims, now: int) -> list[TableLock]:
    """Return the locks of transactions with a valid lease, by table, with their waiters."""
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
    """Return the nodes that can be reached from a node in one or more steps."""
    after: dict[str, set[str]] = {}
    for node, to in steps:
        after.setdefault(node, set()).add(to)
    found: set[str] = set()
    new = set(after.get(start, ()))
    while new:
        found |= new
        new = {to for node in new for to in after.get(node, ())} - found
    return found
