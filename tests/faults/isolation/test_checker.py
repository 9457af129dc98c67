"""The checker itself, on histories made by hand: each anomaly is found, and none where none is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from tests.faults.isolation.anomalies import FORBIDDEN_FROM, Kind
from tests.faults.isolation.checker import anomalies, summary
from tests.faults.isolation.history import (
    LAST_KEY,
    Append,
    Level,
    Operation,
    Read,
    Replace,
    Transaction,
)


def tx(
    label: str,
    *operations: Operation,
    versions: Mapping[str, int] | None = None,
    during: tuple[int, int] = (0, 100),
    committed: bool = True,
) -> Transaction:
    return Transaction(label, operations, committed, *during, versions or {})


def look(table: str, *seen: int, key: int = 1, called: int = 1) -> Read:
    return Read(table, key, key, {key: seen}, called)


def look_at_all(table: str, seen: Mapping[int, tuple[int, ...]], called: int = 1) -> Read:
    return Read(table, 0, LAST_KEY, seen, called)


def add(table: str, value: int, key: int = 1) -> Append:
    return Append(table, key, value)


HISTORIES: Mapping[Kind, Sequence[Transaction]] = {
    Kind.SAME_VERSION: [
        tx("one", add("x", 10), versions={"x": 1}),
        tx("two", add("x", 11), versions={"x": 1}),
    ],
    Kind.HALF_COMMITTED: [tx("one", add("x", 10), add("y", 20), versions={"x": 1})],
    Kind.UNWRITTEN: [tx("one", look("x", 10))],
    Kind.DUPLICATE: [
        tx("one", add("x", 10), versions={"x": 1}),
        tx("two", look("x", 10, 10)),
    ],
    Kind.INTERNAL: [tx("one", add("x", 10), look("x"), versions={"x": 1})],
    Kind.DIRTY_WRITE: [
        tx("one", add("x", 10), add("y", 20), versions={"x": 1, "y": 2}),
        tx("two", add("x", 11), add("y", 21), versions={"x": 2, "y": 1}),
    ],
    Kind.ABORTED_READ: [
        tx("one", add("x", 10), committed=False),
        tx("two", look("x", 10)),
    ],
    Kind.DIRTY_UPDATE: [
        tx("one", add("x", 10), committed=False),
        tx("two", look("x", 10), Replace("x", 1, (10,), 11), versions={"x": 1}),
    ],
    Kind.INTERMEDIATE_READ: [
        tx("one", add("x", 10), add("x", 11), versions={"x": 1}),
        tx("two", look("x", 10)),
    ],
    Kind.CIRCULAR_FLOW: [
        tx("one", add("x", 10), look("y", 20), versions={"x": 1}),
        tx("two", add("y", 20), look("x", 10), versions={"y": 1}),
    ],
    Kind.STALE_READ: [
        tx("one", add("x", 10), versions={"x": 1}, during=(0, 5)),
        tx("two", look("x", called=11), during=(10, 15)),
    ],
    Kind.LOST_UPDATE: [
        tx("one", look("x"), Replace("x", 1, (), 10), versions={"x": 1}),
        tx("two", look("x"), Replace("x", 1, (), 11), versions={"x": 2}),
    ],
    Kind.UNREPEATABLE_READ: [
        tx("one", add("x", 10), versions={"x": 1}),
        tx("two", look("x"), look("x", 10)),
    ],
    Kind.READ_SKEW: [
        tx("one", add("x", 10), add("y", 20), versions={"x": 1, "y": 1}),
        tx("two", look("x"), look("y", 20)),
    ],
    Kind.LONG_FORK: [
        tx("one", add("x", 10), versions={"x": 1}),
        tx("two", add("y", 20), versions={"y": 1}),
        tx("x first", look("x", 10), look("y")),
        tx("y first", look("x"), look("y", 20)),
    ],
    Kind.WRITE_SKEW: [
        tx("one", look("x"), add("y", 20), versions={"y": 1}),
        tx("two", look("y"), add("x", 10), versions={"x": 1}),
    ],
    Kind.PREDICATE_SKEW: [
        tx("one", look_at_all("x", {}), add("x", 10, key=1), versions={"x": 1}),
        tx("two", look_at_all("x", {}), add("x", 20, key=2), versions={"x": 2}),
    ],
    Kind.COMMIT_ORDER: [
        tx("one", add("x", 10), add("z", 30), versions={"x": 1, "z": 1}),
        tx("two", look("x"), add("z", 31), versions={"z": 2}),
    ],
}

MORE: Mapping[str, tuple[Kind, Sequence[Transaction]]] = {
    "a later request sees less than an earlier one": (
        Kind.STALE_READ,
        [
            tx("one", add("x", 10), versions={"x": 1}),
            tx("two", look("x", 10), look("x")),
        ],
    ),
    "a later transaction sees less than an earlier one": (
        Kind.STALE_READ,
        [
            tx("one", add("x", 10), versions={"x": 1}),
            tx("two", look("x", 10), during=(0, 5)),
            tx("three", look("x", called=11), during=(10, 15)),
        ],
    ),
    "an update loses a blind append": (
        Kind.LOST_UPDATE,
        [
            tx("one", add("x", 10), versions={"x": 1}),
            tx("two", look("x"), Replace("x", 1, (), 11), versions={"x": 2}),
            tx("three", look("x", 11)),
        ],
    ),
    "a committed value is nowhere in the end": (
        Kind.STALE_READ,
        [
            tx("one", add("x", 10), add("y", 20), versions={"x": 1, "y": 1}, during=(0, 5)),
            tx("end", look_at_all("x", {1: (10,)}, 10), look_at_all("y", {}, 10), during=(9, 20)),
        ],
    ),
    "one request sees a part of what was written to several keys": (
        Kind.INTERMEDIATE_READ,
        [
            tx("one", add("x", 10, key=1), add("x", 11, key=2), versions={"x": 1}),
            tx("two", look_at_all("x", {1: (10,)})),
        ],
    ),
    "one request sees a version without those before it": (
        Kind.READ_SKEW,
        [
            tx("one", add("x", 10), versions={"x": 1}),
            tx("two", add("x", 11), versions={"x": 2}),
            tx("three", look("x", 11)),
        ],
    ),
    "a transaction that was refused later had seen a skew": (
        Kind.READ_SKEW,
        [
            tx("one", add("x", 10), add("y", 20), versions={"x": 1, "y": 1}),
            tx("two", look("x"), look("y", 20), add("x", 11), committed=False),
        ],
    ),
    "a replaced key shows what others added": (
        Kind.INTERNAL,
        [
            tx("one", add("x", 10), versions={"x": 1}),
            tx("two", look("x"), Replace("x", 1, (), 11), look("x", 10, 11), committed=False),
        ],
    ),
    "three transactions that each miss the next": (
        Kind.WRITE_SKEW,
        [
            tx("one", look("x"), add("y", 20), versions={"y": 1}),
            tx("two", look("y"), add("z", 30), versions={"z": 1}),
            tx("three", look("z"), add("x", 10), versions={"x": 1}),
        ],
    ),
    "read from the future": (
        Kind.CIRCULAR_FLOW,
        [
            tx("one", look("x", 10), during=(0, 5)),
            tx("two", add("x", 10), versions={"x": 1}, during=(10, 15)),
        ],
    ),
}
# What a replaced key shows is the transaction's own business where every request looks anew.
FOUND_FROM = {"a replaced key shows what others added": Level.SNAPSHOT}
# These show within one request, or from one request to the next: no level lets them pass.
FOUND_AT_ONCE = {"one request sees a version without those before it"}


def test_every_kind_of_anomaly_has_a_history() -> None:
    assert set(HISTORIES) == set(Kind) == set(FORBIDDEN_FROM)


@pytest.mark.parametrize("kind", HISTORIES)
@pytest.mark.parametrize("level", Level)
def test_each_anomaly_is_found_from_the_level_that_forbids_it(kind: Kind, level: Level) -> None:
    found = {a.kind for a in anomalies(HISTORIES[kind], level)}
    if level < FORBIDDEN_FROM[kind]:
        assert found == set()
    else:
        assert kind in found


@pytest.mark.parametrize("what", MORE)
@pytest.mark.parametrize("level", Level)
def test_anomalies_are_found_in_other_guises(what: str, level: Level) -> None:
    kind, history = MORE[what]
    first = FOUND_FROM.get(what, FORBIDDEN_FROM[kind])
    if what in FOUND_AT_ONCE:
        first = Level.READ_COMMITTED
    found = {a.kind for a in anomalies(history, level)}
    assert (kind in found) is (level >= first)
    assert level >= first or not found


@pytest.mark.parametrize("level", Level)
def test_a_history_in_which_all_is_well_passes(level: Level) -> None:
    history = [
        tx("one", add("x", 10), add("y", 20), versions={"x": 1, "y": 1}, during=(0, 10)),
        tx("early", look("x", called=2), look("y", called=3), during=(1, 9)),
        tx("late", look("x", 10, called=12), look("y", 20, called=13), during=(11, 14)),
        tx("refused", look("x", 10, called=12), add("y", 21), committed=False, during=(11, 15)),
        tx(
            "update",
            look("x", 10, called=21),
            Replace("x", 1, (10,), 11),
            look("x", 10, 11, called=22),
            add("x", 12),
            look_at_all("x", {1: (10, 11, 12)}, called=23),
            versions={"x": 2},
            during=(20, 30),
        ),
        tx("end", look_at_all("x", {1: (10, 11, 12)}, called=41), during=(40, 50)),
    ]
    assert anomalies(history, level) == []


def test_an_anomaly_is_told_with_its_transactions_and_places() -> None:
    (found,) = anomalies(HISTORIES[Kind.WRITE_SKEW], Level.SERIALIZABLE)
    assert found.story in ("one rw x/1 → two rw y/1 → one", "two rw y/1 → one rw x/1 → two")
    assert "1 × G2-item" in summary([found])


def test_a_value_written_twice_is_no_history() -> None:
    history = [tx("one", add("x", 1), versions={"x": 1}), tx("two", add("y", 1), committed=False)]
    with pytest.raises(ValueError, match="written twice"):
        anomalies(history, Level.SNAPSHOT)
