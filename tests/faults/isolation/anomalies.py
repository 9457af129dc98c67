"""The names of what can go wrong, after Adya and Elle, and the weakest level that forbids each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final, TypeAlias

from tests.faults.isolation.graph import Edge
from tests.faults.isolation.history import Level, Transaction
from tests.faults.isolation.order import Point, Reason, Why

Cycle: TypeAlias = Sequence[Edge[Point, Reason]]


class Kind(StrEnum):
    """What went wrong."""

    SAME_VERSION = "one version given out twice"
    HALF_COMMITTED = "a commit that has no version in a table it wrote"
    UNWRITTEN = "a value that nobody wrote"
    DUPLICATE = "a value seen twice in one read"
    INTERNAL = "a transaction that does not see its own writes"
    DIRTY_WRITE = "G0: writes of two transactions interleaved"
    ABORTED_READ = "G1a: a read of what was never committed"
    DIRTY_UPDATE = "an update of what was never committed"
    INTERMEDIATE_READ = "G1b: one read that sees a part of a transaction"
    CIRCULAR_FLOW = "G1c: two transactions that saw or overwrote each other"
    STALE_READ = "a read that misses what was known before"
    LOST_UPDATE = "a lost update"
    UNREPEATABLE_READ = "two reads of one key that differ"
    READ_SKEW = "G-single: reads that do not go together"
    LONG_FORK = "G-nonadjacent: reads that disagree on the order of commits"
    WRITE_SKEW = "G2-item: writes that depend on what each other changed"
    PREDICATE_SKEW = "G2: writes that depend on what each other added or removed"
    COMMIT_ORDER = "a serial order that is not the order of versions"


FORBIDDEN_FROM: Final = {
    Kind.SAME_VERSION: Level.READ_COMMITTED,
    Kind.HALF_COMMITTED: Level.READ_COMMITTED,
    Kind.UNWRITTEN: Level.READ_COMMITTED,
    Kind.DUPLICATE: Level.READ_COMMITTED,
    Kind.INTERNAL: Level.READ_COMMITTED,
    Kind.DIRTY_WRITE: Level.READ_COMMITTED,
    Kind.ABORTED_READ: Level.READ_COMMITTED,
    Kind.DIRTY_UPDATE: Level.READ_COMMITTED,
    Kind.INTERMEDIATE_READ: Level.READ_COMMITTED,
    Kind.CIRCULAR_FLOW: Level.READ_COMMITTED,
    Kind.STALE_READ: Level.READ_COMMITTED,
    # Among several requests of a transaction. Within one of them they are forbidden everywhere.
    Kind.LOST_UPDATE: Level.SNAPSHOT,
    Kind.UNREPEATABLE_READ: Level.SNAPSHOT,
    Kind.READ_SKEW: Level.SNAPSHOT,
    Kind.LONG_FORK: Level.SNAPSHOT,
    Kind.WRITE_SKEW: Level.SERIALIZABLE,
    Kind.PREDICATE_SKEW: Level.SERIALIZABLE,
    Kind.COMMIT_ORDER: Level.SERIALIZABLE,
}


@dataclass(frozen=True, slots=True)
class Anomaly:
    """Something that a level forbids, and where it shows."""

    kind: Kind
    story: str
    transactions: frozenset[int]

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.story}"


def named(level: Level, cycle: Cycle, history: Sequence[Transaction]) -> Anomaly:
    """What a cycle among the points of a level is called, and how it goes."""
    steps = [e for e in cycle if e.label.why is not Why.PROGRAM]
    parts = (f"{history[e.source[0]].label} {e.label}" for e in steps)
    story = " → ".join([*parts, history[steps[0].source[0]].label])
    return Anomaly(_kind(level, steps), story, frozenset(e.source[0] for e in steps))


def _kind(level: Level, steps: Cycle) -> Kind:
    whys = [e.label.why for e in steps]
    unseen = [e for e in steps if e.label.why is Why.UNSEEN]
    if not unseen:
        return Kind.CIRCULAR_FLOW if Why.SEEN in whys else Kind.DIRTY_WRITE
    if len(unseen) == 1:
        return _kind_of_single(level, unseen[0], [e for e in steps if e is not unseen[0]])
    if (Why.UNSEEN, Why.UNSEEN) in pairwise([*whys, whys[0]]):
        items = all(e.label.item for e in unseen)
        return Kind.WRITE_SKEW if items else Kind.PREDICATE_SKEW
    return Kind.COMMIT_ORDER if level is Level.SERIALIZABLE else Kind.LONG_FORK


def _kind_of_single(level: Level, unseen: Edge[Point, Reason], others: Cycle) -> Kind:
    """The name of a cycle in which one look missed something."""
    place = unseen.label.table, unseen.label.key
    whys = [e.label.why for e in others]
    same = [e for e in others if (e.label.table, e.label.key) == place]
    if any(e.label.why is Why.OVERWRITTEN and e.target[0] == unseen.source[0] for e in same):
        return Kind.LOST_UPDATE
    if level is Level.SERIALIZABLE:
        return Kind.COMMIT_ORDER
    if level is Level.SNAPSHOT:
        return Kind.UNREPEATABLE_READ if same and whys == [Why.SEEN] else Kind.READ_SKEW
    if whys == [Why.SEEN]:
        one_request = others[0].target == unseen.source
        return Kind.INTERMEDIATE_READ if one_request else Kind.STALE_READ
    return Kind.STALE_READ if Why.ANSWERED in whys else Kind.READ_SKEW
