"""A lake in memory that keeps each level's promise, and breaks it where it is told to.

It gives the checker's own tests histories whose verdict is known: many clients take turns at
random, one step at a time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import islice
from typing import TypeAlias

from tests.faults.isolation.history import (
    LAST_KEY,
    Append,
    Level,
    Operation,
    Read,
    Replace,
    Transaction,
)
from tests.faults.isolation.workload import Add, Look, Plan, Update, plans

Rows: TypeAlias = dict[int, frozenset[int]]
"""The values of each key of a table at a version."""


class Bug(Enum):
    """A promise that is not kept."""

    NO_CONFLICTS = auto()
    READS_NOT_COMPARED = auto()
    CUT_PER_REQUEST = auto()
    OLD_CUT = auto()
    HALF_INSERTED = auto()
    ROLLBACK_KEEPS = auto()
    DIRTY_READS = auto()
    OWN_WRITES_HIDDEN = auto()


@dataclass
class _Open:
    """A transaction that is under way."""

    label: str
    plan: Plan
    level: Level
    called: int
    operations: list[Operation] = field(default_factory=list)
    cut: dict[str, int] | None = None
    added: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    replaced: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    based_on: dict[tuple[str, int], int] = field(default_factory=dict)


class SimulatedLake:
    """Tables with all their versions."""

    def __init__(
        self, tables: tuple[str, ...], levels: Sequence[Level], bug: Bug | None = None
    ) -> None:
        self._levels = levels
        self._bug = bug
        self._versions: dict[str, list[Rows]] = {t: [{}] for t in tables}
        self._replaced_at: dict[tuple[str, int], int] = {}
        self._open: list[_Open] = []
        self._clock = 0

    def run(self, choose: random.Random, clients: int, transactions: int) -> list[Transaction]:
        """Let clients take turns until so many transactions have ended, and look at all of it."""
        tables = tuple(self._versions)
        work = islice(plans(choose, 1, tables, keys=3), transactions)
        turns = [self._client(number, work, choose) for number in range(clients)]
        history: list[Transaction] = []
        while turns:
            turn = choose.choice(turns)
            try:
                done = next(turn)
            except StopIteration:
                turns.remove(turn)
                continue
            if done is not None:
                history.append(done)
        everything = Plan(tuple(Look(table, 0, LAST_KEY) for table in tables))
        last = self._client(clients, iter([everything]), choose)
        history += [t for t in last if t is not None]
        return history

    def _client(
        self, number: int, work: Iterator[Plan], choose: random.Random
    ) -> Iterator[Transaction | None]:
        for count, plan in enumerate(work):
            tx = _Open(f"T{number}.{count}", plan, choose.choice(self._levels), self._tick())
            self._open.append(tx)
            for step in plan.steps:
                yield None
                self._do(tx, step)
            yield None
            self._open.remove(tx)
            yield self._end(tx)

    def _do(self, tx: _Open, step: Look | Add | Update) -> None:
        if isinstance(step, Add):
            tx.operations.append(Append(step.table, step.key, step.value))
            tx.added.setdefault((step.table, step.key), set()).add(step.value)
            return
        if isinstance(step, Look):
            self._read(tx, step.table, step.first, step.last)
            return
        place = step.table, step.key
        kept = self._read(tx, step.table, step.key, step.key).seen.get(step.key, ())
        tx.operations.append(Replace(*place, kept, step.value))
        tx.replaced[place] = {*kept, step.value}
        tx.added.pop(place, None)
        tx.based_on[place] = self._base(tx, step.table)

    def _read(self, tx: _Open, table: str, first: int, last: int) -> Read:
        called = self._tick()
        rows = self._versions[table][self._base(tx, table)]
        seen: dict[int, tuple[int, ...]] = {}
        for key in range(min(last, 9) + 1):
            if key < first:
                continue
            values = set(tx.replaced.get((table, key), rows.get(key, frozenset())))
            if self._bug is not Bug.OWN_WRITES_HIDDEN:
                values |= tx.added.get((table, key), set())
            if self._bug is Bug.DIRTY_READS:
                values |= {v for o in self._open for v in o.added.get((table, key), ())}
            if values:
                seen[key] = tuple(sorted(values))
        read = Read(table, first, last, seen, called)
        tx.operations.append(read)
        return read

    def _base(self, tx: _Open, table: str) -> int:
        newest = {t: len(versions) - 1 for t, versions in self._versions.items()}
        if tx.level is Level.READ_COMMITTED or self._bug is Bug.CUT_PER_REQUEST:
            return newest[table]
        if tx.cut is None:
            tx.cut = newest
            if self._bug is Bug.OLD_CUT:
                tx.cut = {t: max(0, v - 1) for t, v in newest.items()}
        return tx.cut[table]

    def _end(self, tx: _Open) -> Transaction:
        ends = tx.plan.give_up or self._conflicts(tx)
        versions = {}
        if not ends or self._bug is Bug.ROLLBACK_KEEPS:
            versions = self._apply(tx)
        operations = tuple(tx.operations)
        return Transaction(
            tx.label, operations, not ends, tx.called, self._tick(), versions, tx.level
        )

    def _conflicts(self, tx: _Open) -> bool:
        if self._bug is Bug.NO_CONFLICTS or not (tx.added or tx.replaced):
            return False
        for (table, key), base in tx.based_on.items():
            if tx.level is Level.READ_COMMITTED:
                # Its rows are gone; rows that were added since would stay.
                if self._replaced_at.get((table, key), 0) > base:
                    return True
            elif self._changed(table, key, key, base):
                return True
        if tx.level is not Level.SERIALIZABLE or self._bug is Bug.READS_NOT_COMPARED:
            return False
        reads = [o for o in tx.operations if isinstance(o, Read)]
        return any(self._changed(r.table, r.first, r.last, self._base(tx, r.table)) for r in reads)

    def _changed(self, table: str, first: int, last: int, base: int) -> bool:
        then, now = self._versions[table][base], self._versions[table][-1]
        return any(then.get(k) != now.get(k) for k in range(first, min(last, 9) + 1))

    def _apply(self, tx: _Open) -> dict[str, int]:
        tables = sorted({table for table, _ in (*tx.added, *tx.replaced)})
        told = {}
        for number, table in enumerate(tables):
            rows = dict(self._versions[table][-1])
            told[table] = len(self._versions[table])
            if number and self._bug is Bug.HALF_INSERTED:
                self._versions[table].append(rows)
                continue
            for (where, key), values in tx.replaced.items():
                if where == table:
                    then = self._versions[table][tx.based_on[table, key]].get(key, frozenset())
                    rows[key] = (rows.get(key, frozenset()) - then) | values
                    self._replaced_at[table, key] = told[table]
            for (where, key), values in tx.added.items():
                if where == table:
                    rows[key] = rows.get(key, frozenset()) | values
            self._versions[table].append(rows)
        return told

    def _tick(self) -> int:
        self._clock += 1
        return self._clock


def simulate(
    seed: int,
    level: Level | Sequence[Level],
    bug: Bug | None = None,
    *,
    tables: tuple[str, ...] = ("a", "b", "c"),
    clients: int = 4,
    transactions: int = 60,
) -> list[Transaction]:
    """A history of random work at a level, or at several."""
    levels = [level] if isinstance(level, Level) else level
    lake = SimulatedLake(tables, levels, bug)
    return lake.run(random.Random(seed), clients, transactions)
