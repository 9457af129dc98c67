"""What must have happened before what, at a level: a graph of points in time.

Reading and committing happen at points. A level says which of them are one:

    read committed   r₁ ── r₂ ── … ── c     each request reads at a point of its own
    snapshot         s ────────────── c     all requests of a transaction read at one point
    serializable     ●                      and that point is the one at which it commits

The history says in which order points must lie. Whoever saw a value read after its author
committed; whoever looked and did not see it, read before. A table's versions were committed in
their order. Whoever replaced a key had everything before it in sight, from `snapshot` on. What was
answered came before what was asked later. The history is possible at the level exactly if all this
can be true at once: if the graph has no cycle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
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


@dataclass(frozen=True)
class Order:
    """The points of a history at a level, and what must come before what.

    Attributes:
        graph: Of the points.
        lost: The place of the transaction that removed a value without having seen it, by value.
    """

    graph: Graph[Point, Reason]
    lost: dict[int, int]


@dataclass(frozen=True, slots=True)
class _View:
    """A key that a request looked at, and what was ever committed to it by others."""

    place: int
    point: Point
    read: Read
    seen: frozenset[int]
    writes: list[Write]


def order_at(level: Level, history: Sequence[Transaction], promised: Level | None = None) -> Order:
    """What a level asks of a history.

    Args:
        level: Which points are one.
        history: What happened.
        promised: The level at which it ran, if another: only those who were promised that each
            request looks anew may expect the newest from each.
    """
    written = _written(history)
    order = Order(Graph(), _lost(written))
    views = list(_views(level, history, written))
    # Where two reasons join the same points the first one names the cycle: the surest come first.
    _within(level, history, order)
    _overwritten(level, written, order)
    _seen(level, views, order)
    anew = (promised or level) is Level.READ_COMMITTED
    _answered(level, history, order, anew=anew)
    _unseen(level, views, order)
    _versions(level, history, order)
    return order


def _read_point(level: Level, place: int, number: int = 0) -> Point:
    return place, number if level is Level.READ_COMMITTED else 0


def _commit_point(level: Level, place: int) -> Point:
    return place, 0 if level is Level.SERIALIZABLE else _COMMIT


def _written(history: Sequence[Transaction]) -> dict[str, dict[int, list[Write]]]:
    """What was committed, by table and key, in the order of versions; without it, no order."""
    out: dict[str, dict[int, list[Write]]] = {}
    for place, transaction in enumerate(history):
        for write in writes_of(place, transaction) if transaction.committed else ():
            if write.table not in transaction.versions:
                continue
            out.setdefault(write.table, {}).setdefault(write.key, []).append(write)
    for keys in out.values():
        for writes in keys.values():
            writes.sort(key=lambda w: w.version)
    return out


def _lost(written: dict[str, dict[int, list[Write]]]) -> dict[int, int]:
    """The values that somebody removed without having seen them, and who did."""
    out: dict[int, int] = {}
    for keys in written.values():
        for writes in keys.values():
            for number, write in enumerate(writes):
                if write.kept is None:
                    continue
                for other in writes[:number]:
                    if other.author != write.author and other.value not in write.kept:
                        out.setdefault(other.value, write.author)
    return out


def _views(
    level: Level, history: Sequence[Transaction], written: dict[str, dict[int, list[Write]]]
) -> Iterator[_View]:
    for place, transaction in enumerate(history):
        replaced: set[tuple[str, int]] = set()
        number = 0
        for operation in transaction.operations:
            if isinstance(operation, Replace):
                # From here on the transaction sees its own rows of this key, whatever others do.
                replaced.add((operation.table, operation.key))
            if not isinstance(operation, Read):
                continue
            point = _read_point(level, place, number)
            number += 1
            for key, writes in written.get(operation.table, {}).items():
                if operation.covers(key) and (operation.table, key) not in replaced:
                    seen = frozenset(operation.seen.get(key, ()))
                    yield _View(place, point, operation, seen, writes)


def _within(level: Level, history: Sequence[Transaction], order: Order) -> None:
    for place, transaction in enumerate(history):
        reads = [_read_point(level, place, n) for n in range(max(1, len(transaction.reads)))]
        for before, after in pairwise([*dict.fromkeys(reads), _commit_point(level, place)]):
            order.graph.add(before, after, Reason(Why.PROGRAM))


def _overwritten(level: Level, written: dict[str, dict[int, list[Write]]], order: Order) -> None:
    """Who replaces a key does so on top of all that was committed to it before.

    From `snapshot` on it must also have had all of it in sight: the first to commit wins.
    """
    for table, keys in written.items():
        for key, writes in keys.items():
            # What was there before the last replacement comes before that one already.
            before: list[Write] = []
            for write in writes:
                before.append(write)
                if write.kept is None:
                    continue
                on_top = (
                    _commit_point(level, write.author)
                    if level is Level.READ_COMMITTED
                    else _read_point(level, write.author)
                )
                for other in before:
                    if other.author != write.author:
                        source = _commit_point(level, other.author)
                        order.graph.add(source, on_top, Reason(Why.OVERWRITTEN, table, key))
                before = [write]


def _seen(level: Level, views: Sequence[_View], order: Order) -> None:
    for view in views:
        for write in view.writes:
            if write.author != view.place and write.value in view.seen:
                reason = Reason(Why.SEEN, write.table, write.key)
                order.graph.add(_commit_point(level, write.author), view.point, reason)


def _unseen(level: Level, views: Sequence[_View], order: Order) -> None:
    for view in views:
        for write in view.writes:
            if write.author == view.place or write.value in view.seen:
                continue
            # A value that is lost says nothing about when others looked for it.
            if order.lost.get(write.value, view.place) == view.place:
                reason = Reason(Why.UNSEEN, write.table, write.key, view.read.is_item)
                order.graph.add(view.point, _commit_point(level, write.author), reason)


def _versions(level: Level, history: Sequence[Transaction], order: Order) -> None:
    commits: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for place, transaction in enumerate(history):
        for table, version in transaction.versions.items() if transaction.committed else ():
            commits[table].append((version, place))
    for table, found in commits.items():
        for (_, before), (_, after) in pairwise(sorted(found)):
            points = _commit_point(level, before), _commit_point(level, after)
            order.graph.add(*points, Reason(Why.VERSION, table))


def _answered(level: Level, history: Sequence[Transaction], order: Order, *, anew: bool) -> None:
    """What was answered happened before what was asked afterwards.

    Only edges from the newest answers are added, those that no other answer came after: the rest
    follows from these.
    """
    events: list[tuple[int, bool, int, Point]] = []
    for place, transaction in enumerate(history):
        events.append((transaction.returned, True, place, _commit_point(level, place)))
        events.append((transaction.looked, False, place, _read_point(level, place)))
        for number, read in enumerate(transaction.reads if anew else ()):
            events.append((read.called, False, place, _read_point(level, place, number)))
    newest: list[int] = []
    for _, answered, place, point in sorted(events):
        if answered:
            begun = history[place].looked
            newest = [p for p in newest if history[p].returned >= begun]
            newest.append(place)
            continue
        for before in newest:
            order.graph.add(_commit_point(level, before), point, Reason(Why.ANSWERED))
