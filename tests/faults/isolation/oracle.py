"""The checker's judge for tiny histories: tries every order in which they can have happened.

It shares no thought with the checker. It runs the transactions on tables in memory, one event at a
time, and asks whether some order of events gives every client what it saw.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tests.faults.isolation.history import Append, Level, Read, Replace, Transaction

_Place: TypeAlias = tuple[str, int]


@dataclass
class _State:
    """The tables, and how far each transaction got."""

    rows: dict[_Place, frozenset[int]] = field(default_factory=dict)
    written: dict[_Place, int] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    looked: dict[int, int] = field(default_factory=dict)
    ended: frozenset[int] = frozenset()
    events: int = 0


def possible(history: Sequence[Transaction], level: Level) -> bool:
    """Whether some order of events explains the history.

    Args:
        history: Of transactions that were promised `snapshot` or `serializable`.
        level: No more than this was promised to any of them.
    """
    return _search(history, level, _State())


def _search(history: Sequence[Transaction], level: Level, state: _State) -> bool:
    if len(state.ended) == len(history):
        return True
    for place in range(len(history)):
        if place not in state.ended:
            after = _next(history, level, state, place)
            if after is not None and _search(history, level, after):
                return True
    return False


def _next(history: Sequence[Transaction], level: Level, state: _State, place: int) -> _State | None:
    """The state after a transaction's next event, or None when it cannot happen now."""
    transaction = history[place]
    new = _State(
        dict(state.rows),
        dict(state.written),
        dict(state.versions),
        dict(state.looked),
        state.ended,
        state.events + 1,
    )
    if place not in state.looked:
        late = {p for p, t in enumerate(history) if t.returned < transaction.looked}
        if not late <= state.ended or not _sees(transaction, state):
            return None
        new.looked[place] = state.events
        if min(level, transaction.level) is Level.SNAPSHOT:
            return new
    if not _commits(transaction, new, new.looked[place]):
        return None
    new.ended |= {place}
    return new


def _sees(transaction: Transaction, state: _State) -> bool:
    added: dict[_Place, set[int]] = {}
    replaced: dict[_Place, set[int]] = {}
    for operation in transaction.operations:
        if isinstance(operation, Append):
            added.setdefault((operation.table, operation.key), set()).add(operation.value)
        elif isinstance(operation, Replace):
            place = operation.table, operation.key
            added.pop(place, None)
            replaced[place] = {*operation.kept, operation.value}
        else:
            for place in _covered(operation, state, added, replaced):
                base = replaced.get(place, state.rows.get(place, frozenset()))
                if set(operation.seen.get(place[1], ())) != base | added.get(place, set()):
                    return False
    return True


def _covered(
    read: Read,
    state: _State,
    added: dict[_Place, set[int]],
    replaced: dict[_Place, set[int]],
) -> set[_Place]:
    known = {*state.rows, *added, *replaced, *((read.table, key) for key in read.seen)}
    return {(t, key) for t, key in known if t == read.table and read.covers(key)}


def _commits(transaction: Transaction, state: _State, looked: int) -> bool:
    """Apply a transaction's writes; False when its versions or its updates do not fit."""
    if not transaction.committed:
        return True
    for table, version in transaction.versions.items():
        if state.versions.get(table, 0) >= version:
            return False
        state.versions[table] = version
    for operation in transaction.operations:
        if isinstance(operation, Read):
            continue
        place = operation.table, operation.key
        if isinstance(operation, Replace):
            if looked < state.written.get(place, -1) < state.events:
                return False
            state.rows[place] = frozenset({*operation.kept, operation.value})
        else:
            state.rows[place] = state.rows.get(place, frozenset()) | {operation.value}
        state.written[place] = state.events
    return True
