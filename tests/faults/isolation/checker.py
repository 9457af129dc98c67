"""Whether a recorded history keeps what an isolation level promises.

Two questions are asked. Is every single thing that was seen something that could be seen: written
by somebody, committed, once, own writes included? And can all of it have happened in one order
(`order.py`)? A history that passes is possible at the level, and one that is not possible is told
with the transactions that contradict each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from tests.faults.isolation.anomalies import FORBIDDEN_FROM, Anomaly, Kind, named
from tests.faults.isolation.history import (
    Append,
    Level,
    Operation,
    Read,
    Replace,
    Transaction,
    writes_of,
)
from tests.faults.isolation.order import order_at

_CYCLES_PER_COMPONENT: Final = 16


def anomalies(history: Sequence[Transaction], level: Level = Level.SERIALIZABLE) -> list[Anomaly]:
    """What a history shows and its transactions were promised not to see; the plainest first.

    Args:
        history: All transactions that wrote to, or read, the tables in question, in any order.
        level: No more than this was promised to any of them.

    Raises:
        ValueError: A value was written twice: then nothing can be told.
    """
    _check_usable(history)
    found = [*_wrong_versions(history), *_impossible_views(history, level)]
    told: set[frozenset[int]] = set()
    for weaker in Level:
        if weaker > level:
            break
        for anomaly in _cycles(history, weaker, level):
            if anomaly.transactions not in told:
                told.add(anomaly.transactions)
                found.append(anomaly)
    return sorted(found, key=lambda a: FORBIDDEN_FROM[a.kind])


def summary(found: Sequence[Anomaly], *, examples: int = 3) -> str:
    """How often what was found, and some examples."""
    counts = Counter(a.kind.value for a in found)
    lines = [f"{number} × {kind}" for kind, number in counts.most_common()]
    return "\n".join([*lines, *(f"  such as {a}" for a in found[:examples])])


def _check_usable(history: Sequence[Transaction]) -> None:
    seen: set[int] = set()
    for place, transaction in enumerate(history):
        for write in writes_of(place, transaction):
            if write.value in seen:
                message = f"{write.value} was written twice, so nobody knows who saw what"
                raise ValueError(message)
            seen.add(write.value)


def _wrong_versions(history: Sequence[Transaction]) -> Iterator[Anomaly]:
    owners: dict[tuple[str, int], int] = {}
    for place, transaction in enumerate(history):
        if not transaction.committed:
            continue
        written = {write.table for write in writes_of(place, transaction)}
        for table in sorted(written - set(transaction.versions)):
            story = f"{transaction.label} in {table}"
            yield Anomaly(Kind.HALF_COMMITTED, story, frozenset({place}))
        for table, version in transaction.versions.items():
            other = owners.setdefault((table, version), place)
            if other != place:
                story = f"version {version} of {table}: {history[other].label}, {transaction.label}"
                yield Anomaly(Kind.SAME_VERSION, story, frozenset({other, place}))


def _impossible_views(history: Sequence[Transaction], level: Level) -> Iterator[Anomaly]:
    """Reads, and updates, of what could not be seen by anybody at any time."""
    authors = {
        write.value: write
        for place, transaction in enumerate(history)
        for write in writes_of(place, transaction)
    }
    for place, transaction in enumerate(history):
        own = _OwnView(min(level, transaction.level))
        for operation in transaction.operations:
            for kind, what in own.follow(operation):
                story = f"{transaction.label} in {operation.table}: {what}"
                yield Anomaly(kind, story, frozenset({place}))
            for key, value in _looked_at(operation):
                write = authors.get(value)
                if write is None or (write.table, write.key) != (operation.table, key):
                    kind = Kind.UNWRITTEN
                elif write.author == place or history[write.author].committed:
                    continue
                elif isinstance(operation, Replace):
                    kind = Kind.DIRTY_UPDATE
                else:
                    kind = Kind.ABORTED_READ
                story = f"{transaction.label} in {operation.table}/{key}: {value}"
                yield Anomaly(kind, story, frozenset({place}))


def _looked_at(operation: Operation) -> Iterator[tuple[int, int]]:
    """The keys and values that an operation shows to have been seen."""
    if isinstance(operation, Replace):
        yield from ((operation.key, value) for value in operation.kept)
    elif isinstance(operation, Read):
        yield from ((key, v) for key, values in operation.seen.items() for v in values)


class _OwnView:
    """What a transaction must see of its own writes, as it goes on."""

    def __init__(self, level: Level) -> None:
        self._alone = level is not Level.READ_COMMITTED
        self._rows: dict[tuple[str, int], set[int]] = {}
        self._replaced: set[tuple[str, int]] = set()

    def follow(self, operation: Operation) -> Iterator[tuple[Kind, str]]:
        """Take the next operation; what is wrong with it."""
        place = operation.table, -1 if isinstance(operation, Read) else operation.key
        if isinstance(operation, Append):
            self._rows.setdefault(place, set()).add(operation.value)
        elif isinstance(operation, Replace):
            self._rows[place] = {*operation.kept, operation.value}
            self._replaced.add(place)
        else:
            yield from self._check(operation)

    def _check(self, read: Read) -> Iterator[tuple[Kind, str]]:
        for key, values in read.seen.items():
            twice = [v for v, times in Counter(values).items() if times > 1]
            if twice:
                yield Kind.DUPLICATE, f"sees {twice} more than once under {key}"
        for (table, key), rows in self._rows.items():
            if table != read.table or not read.covers(key):
                continue
            seen = set(read.seen.get(key, ()))
            if not rows <= seen:
                yield Kind.INTERNAL, f"wrote {sorted(rows - seen)} under {key}, sees {sorted(seen)}"
            elif self._alone and (table, key) in self._replaced and seen != rows:
                yield Kind.INTERNAL, f"replaced {key} and still sees {sorted(seen - rows)}"


def _cycles(history: Sequence[Transaction], level: Level, promised: Level) -> Iterator[Anomaly]:
    graph = order_at(level, history, promised)
    for component in graph.components():
        shortest: dict[frozenset[int], Anomaly] = {}
        for start in sorted(component)[:_CYCLES_PER_COMPONENT]:
            anomaly = named(level, graph.cycle_through(start, component), history)
            shortest.setdefault(anomaly.transactions, anomaly)
        yield from shortest.values()
