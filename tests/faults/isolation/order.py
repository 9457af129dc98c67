"""What must have happened before what, at a level: a graph of points in time.

Reading and committing happen at points. A level says which of them are one:

    read committed   r₁ ── r₂ ── … ── c     each request reads at a point of its own
    snapshot         s ────────────── c     all requests of a transaction read at one point
    serializable     ●                      and that point is the one at which it commits

Each transaction has the points of its own level. The history says in which order points must lie.
Whoever saw a value read after its author committed; whoever looked and did not see it, read before.
A table's versions were committed in their order. Whoever replaced a key had everything before it in
sight, from `snapshot` on. What was answered came before what was asked later. The history is
possible exactly if all this can be true at once: if the graph has no cycle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import count, pairwise
from typing import Final, TypeAlias

from tests.faults.isolation.graph import Graph
from tests.faults.isolation.history import Level, Read, Replace, Transaction, Write, writes_of

_COMMIT: Final = 2**31

Point: TypeAlias = tuple[int, int]
"""A transaction's place in the history, and which of its points."""


class Why(StrEnum):
    """Why one point lies before another."""

    PROGRAM = "then, in the same transaction"
    OVERWRITTEN = "ww"
    SEEN = "wr"
    ANSWERED = "before, in real time,"
    UNSEEN = "rw"
    VERSION = "an earlier version than"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why one point lies before another, and where that shows."""

    why: Why
    table: str = ""
    key: int = -1
    item: bool = True

    def __str__(self) -> str:
        if not self.table:
            return self.why.value
        where = self.table if self.key < 0 else f"{self.table}/{self.key}"
        return f"{self.why.value} {where}"


def order_at(
    level: Level, history: Sequence[Transaction], promised: Level = Level.SERIALIZABLE
) -> Graph[Point, Reason]:
    """The points of a history and what must come before what, as if nobody ran above a level.

    Args:
        level: The highest at which any transaction is looked at; its own counts where it is lower.
        history: What happened.
        promised: The highest at which any transaction ran. Only those who were promised that each
            request looks anew may expect the newest from each.
    """
    return _Order(level, history, promised).graph


@dataclass(frozen=True, slots=True)
class _View:
    """A key that a request looked at, and what was ever committed to it."""

    place: int
    point: Point
    read: Read
    seen: frozenset[int]
    writes: list[Write]


class _Order:
    """Builds the graph."""

    def __init__(self, level: Level, history: Sequence[Transaction], promised: Level) -> None:
        self.graph: Graph[Point, Reason] = Graph()
        self._history = history
        self._levels = [min(level, t.level) for t in history]
        self._promised = [min(promised, t.level) for t in history]
        self._written = _written(history)
        self._lost = _lost(self._written.values())
        views = list(self._views())
        # Where two reasons join the same points the first one names the cycle: the surest first.
        self._within()
        self._overwritten()
        self._seen(views)
        self._answered()
        self._unseen(views)
        self._versions()

    def _read(self, place: int, number: int = 0) -> Point:
        return place, number if self._levels[place] is Level.READ_COMMITTED else 0

    def _commit(self, place: int) -> Point:
        return place, 0 if self._levels[place] is Level.SERIALIZABLE else _COMMIT

    def _views(self) -> Iterator[_View]:
        for place, transaction in enumerate(self._history):
            replaced: set[tuple[str, int]] = set()
            numbers = count()
            for operation in transaction.operations:
                if isinstance(operation, Replace):
                    # From here on it sees its own rows of this key, whatever others do.
                    replaced.add((operation.table, operation.key))
                if not isinstance(operation, Read):
                    continue
                point = self._read(place, next(numbers))
                table = operation.table
                for (where, key), writes in self._written.items():
                    if where == table and operation.covers(key) and (table, key) not in replaced:
                        seen = frozenset(operation.seen.get(key, ()))
                        yield _View(place, point, operation, seen, writes)

    def _within(self) -> None:
        for place, transaction in enumerate(self._history):
            reads = [self._read(place, n) for n in range(max(1, len(transaction.reads)))]
            for before, after in pairwise([*dict.fromkeys(reads), self._commit(place)]):
                self.graph.add(before, after, Reason(Why.PROGRAM))

    def _overwritten(self) -> None:
        """Who replaces a key does so on top of all that was committed to it before.

        From `snapshot` on it must also have had all of it in sight: the first to commit wins.
        """
        for (table, key), writes in self._written.items():
            # What was there before the last replacement comes before that one already.
            before: list[Write] = []
            for write in writes:
                before.append(write)
                if write.kept is None:
                    continue
                in_sight = self._levels[write.author] is not Level.READ_COMMITTED
                on_top = (self._read if in_sight else self._commit)(write.author)
                for other in before:
                    if other.author != write.author:
                        reason = Reason(Why.OVERWRITTEN, table, key)
                        self.graph.add(self._commit(other.author), on_top, reason)
                before = [write]

    def _seen(self, views: Sequence[_View]) -> None:
        for view in views:
            for write in view.writes:
                if write.author != view.place and write.value in view.seen:
                    reason = Reason(Why.SEEN, write.table, write.key)
                    self.graph.add(self._commit(write.author), view.point, reason)

    def _unseen(self, views: Sequence[_View]) -> None:
        for view in views:
            for write in view.writes:
                if write.author == view.place or write.value in view.seen:
                    continue
                # A value that is lost says nothing about when others looked for it.
                if self._lost.get(write.value, view.place) == view.place:
                    reason = Reason(Why.UNSEEN, write.table, write.key, view.read.is_item)
                    self.graph.add(view.point, self._commit(write.author), reason)

    def _versions(self) -> None:
        commits: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for place, transaction in enumerate(self._history):
            for table, version in transaction.versions.items() if transaction.committed else ():
                commits[table].append((version, place))
        for table, found in commits.items():
            for (_, before), (_, after) in pairwise(sorted(found)):
                reason = Reason(Why.VERSION, table)
                self.graph.add(self._commit(before), self._commit(after), reason)

    def _answered(self) -> None:
        """What was answered happened before what was asked afterwards.

        Only edges from the newest answers are added, those that no other answer came after: the
        rest follows from these.
        """
        events: list[tuple[int, bool, int, Point]] = []
        for place, transaction in enumerate(self._history):
            events.append((transaction.returned, True, place, self._commit(place)))
            events.append((transaction.looked, False, place, self._read(place)))
            anew = self._promised[place] is Level.READ_COMMITTED
            for number, read in enumerate(transaction.reads if anew else ()):
                events.append((read.called, False, place, self._read(place, number)))
        newest: list[int] = []
        for _, answered, place, point in sorted(events):
            if answered:
                begun = self._history[place].looked
                newest = [p for p in newest if self._history[p].returned >= begun]
                newest.append(place)
                continue
            for before in newest:
                self.graph.add(self._commit(before), point, Reason(Why.ANSWERED))


def _written(history: Sequence[Transaction]) -> dict[tuple[str, int], list[Write]]:
    """What was committed, by table and key, in the order of versions; without it, no order."""
    out: defaultdict[tuple[str, int], list[Write]] = defaultdict(list)
    for place, transaction in enumerate(history):
        for write in writes_of(place, transaction) if transaction.committed else ():
            if write.table in transaction.versions:
                out[write.table, write.key].append(write)
    for writes in out.values():
        writes.sort(key=lambda w: w.version)
    return dict(out)


def _lost(written: Iterable[list[Write]]) -> dict[int, int]:
    """The values that somebody removed without having seen them, and who did."""
    out: dict[int, int] = {}
    for writes in written:
        for number, write in enumerate(writes):
            if write.kept is None:
                continue
            for other in writes[:number]:
                if other.author != write.author and other.value not in write.kept:
                    out.setdefault(other.value, write.author)
    return out
