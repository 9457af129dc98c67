"""The checker against a simulated lake, planted bugs and a judge that tries every order."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faults.isolation.anomalies import Kind
from tests.faults.isolation.checker import anomalies, summary
from tests.faults.isolation.graph import Graph
from tests.faults.isolation.history import Level, Operation, Read, Replace, Transaction
from tests.faults.isolation.oracle import possible
from tests.faults.isolation.simulated import Bug, simulate

pytestmark = pytest.mark.slow

SEEDS = st.integers(0, 2**32)
QUICK = settings(max_examples=20, deadline=None, derandomize=True)

BELOW: Mapping[Level, set[Kind]] = {
    Level.SNAPSHOT: {Kind.LOST_UPDATE, Kind.READ_SKEW, Kind.UNREPEATABLE_READ, Kind.LONG_FORK},
    Level.SERIALIZABLE: {Kind.WRITE_SKEW, Kind.PREDICATE_SKEW, Kind.COMMIT_ORDER},
}
PLANTED: Mapping[Bug, tuple[Level, set[Kind]]] = {
    Bug.NO_CONFLICTS: (Level.SNAPSHOT, {Kind.LOST_UPDATE}),
    Bug.READS_NOT_COMPARED: (Level.SERIALIZABLE, {Kind.WRITE_SKEW, Kind.PREDICATE_SKEW}),
    Bug.CUT_PER_REQUEST: (Level.SNAPSHOT, {Kind.READ_SKEW, Kind.UNREPEATABLE_READ}),
    Bug.OLD_CUT: (Level.SNAPSHOT, {Kind.STALE_READ}),
    Bug.HALF_INSERTED: (Level.READ_COMMITTED, {Kind.STALE_READ, Kind.READ_SKEW}),
    Bug.ROLLBACK_KEEPS: (Level.READ_COMMITTED, {Kind.ABORTED_READ, Kind.DIRTY_UPDATE}),
    Bug.DIRTY_READS: (
        Level.READ_COMMITTED,
        {Kind.ABORTED_READ, Kind.INTERMEDIATE_READ, Kind.CIRCULAR_FLOW},
    ),
    Bug.OWN_WRITES_HIDDEN: (Level.READ_COMMITTED, {Kind.INTERNAL}),
}


@pytest.mark.parametrize("level", Level)
@QUICK
@given(seed=SEEDS)
def test_serial_histories_pass_at_every_level(level: Level, seed: int) -> None:
    history = simulate(seed, Level.READ_COMMITTED, clients=1, transactions=30)
    assert anomalies(history, level) == []


@pytest.mark.parametrize("level", Level)
@QUICK
@given(seed=SEEDS)
def test_histories_of_a_level_pass_at_that_level(level: Level, seed: int) -> None:
    found = anomalies(simulate(seed, level), level)
    assert not found, summary(found)


@QUICK
@given(seed=SEEDS)
def test_histories_of_mixed_levels_keep_what_each_transaction_was_promised(seed: int) -> None:
    found = anomalies(simulate(seed, list(Level)))
    assert not found, summary(found)


@pytest.mark.parametrize("level", BELOW)
def test_histories_of_the_level_below_show_what_the_level_forbids(level: Level) -> None:
    histories = [as_promised(level, simulate(seed, Level(level - 1))) for seed in range(20)]
    assert {a.kind for h in histories for a in anomalies(h)} == BELOW[level]


def test_a_bug_is_found_although_only_some_transactions_were_promised_anything() -> None:
    histories = [simulate(seed, list(Level), Bug.READS_NOT_COMPARED) for seed in range(40)]
    assert {a.kind for h in histories for a in anomalies(h)} & BELOW[Level.SERIALIZABLE]


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: Bug) -> None:
    level, kinds = PLANTED[bug]
    histories = [simulate(seed, level, bug) for seed in range(20)]
    assert {a.kind for h in histories for a in anomalies(h, level)} >= kinds


@pytest.mark.parametrize("level", [Level.SNAPSHOT, Level.SERIALIZABLE])
@settings(QUICK, max_examples=200)
@given(
    seed=SEEDS,
    run_at=st.sampled_from([*([level] for level in Level), [Level.SNAPSHOT, Level.SERIALIZABLE]]),
    clients=st.integers(2, 4),
    bug=st.sampled_from([None, *Bug]),
    change=st.integers(0, 4),
)
def test_the_checker_judges_as_one_who_tries_every_order(
    level: Level, seed: int, run_at: list[Level], clients: int, bug: Bug | None, change: int
) -> None:
    history = simulate(
        seed, run_at, bug, tables=("a", "b"), clients=clients, transactions=clients + 1
    )
    for _ in range(change):
        history = changed(random.Random(seed + change), history)
    if Level.READ_COMMITTED in run_at:
        history = as_promised(level, history)
    assert possible(history, level) is (anomalies(history, level) == [])


@pytest.mark.parametrize("level", [Level.SNAPSHOT, Level.SERIALIZABLE])
@QUICK
@given(seed=SEEDS)
def test_a_value_taken_out_of_a_late_read_is_found(level: Level, seed: int) -> None:
    *history, last = simulate(seed, level, transactions=30)
    values = [(r, key, v) for r in last.reads for key, vs in r.seen.items() for v in vs]
    if values:
        read, key, value = random.Random(seed).choice(values)
        seen = {**read.seen, key: tuple(v for v in read.seen[key] if v != value)}
        torn = tuple(replace(r, seen=seen) if r is read else r for r in last.operations)
        assert anomalies([*history, replace(last, operations=torn)], level)


@QUICK
@given(edges=st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=20))
def test_components_are_the_nodes_that_reach_each_other(edges: set[tuple[int, int]]) -> None:
    graph: Graph[int, str] = Graph()
    for source, target in edges:
        graph.add(source, target, f"{source}-{target}")
    reach = {n: {n} for n in range(8)}
    for _ in range(8):
        for source, target in edges:
            for reached in reach.values():
                reached |= {target} if source in reached else set()
    wanted = {frozenset(m for m in reach[n] if n in reach[m]) for n in range(8)}

    found = graph.components()
    assert {frozenset(c) for c in found} == {c for c in wanted if len(c) > 1}
    for component in found:
        for node in component:
            cycle = graph.cycle_through(node, component)
            assert cycle[0].source == cycle[-1].target == node
            assert all(a.target == b.source for a, b in pairwise(cycle))
            assert all(e.label == f"{e.source}-{e.target}" for e in cycle)


def as_promised(level: Level, history: list[Transaction]) -> list[Transaction]:
    """The history, as if all its transactions had been promised a level."""
    return [replace(t, level=level) for t in history]


def changed(choose: random.Random, history: list[Transaction]) -> list[Transaction]:
    """The history with one thing in it that may not be true."""
    place = choose.randrange(len(history))
    transaction = history[place]
    drawn = choose.random()
    if drawn < 0.3:
        others = [p for p, t in enumerate(history) if set(t.versions) & set(transaction.versions)]
        if others:
            return swapped(history, place, choose.choice(others))
    if drawn < 0.5:
        transaction = replace(transaction, committed=False)
        return [*history[:place], transaction, *history[place + 1 :]]
    reads = [r for r in transaction.reads if any(r.seen.values())]
    if not reads:
        return history
    read = choose.choice(reads)
    key = choose.choice(sorted(key for key, values in read.seen.items() if values))
    gone = choose.choice(read.seen[key])
    operations = tuple(without(o, read.table, key, gone) for o in transaction.operations)
    transaction = replace(transaction, operations=operations)
    return [*history[:place], transaction, *history[place + 1 :]]


def without(operation: Operation, table: str, key: int, value: int) -> Operation:
    """A transaction that has not seen a value has not kept it either."""
    if operation.table != table:
        return operation
    if isinstance(operation, Read):
        left = tuple(v for v in operation.seen.get(key, ()) if v != value)
        return replace(operation, seen={**operation.seen, key: left})
    if isinstance(operation, Replace) and operation.key == key:
        return replace(operation, kept=tuple(v for v in operation.kept if v != value))
    return operation


def swapped(history: list[Transaction], one: int, two: int) -> list[Transaction]:
    """The history with the versions of two transactions exchanged in a table that both wrote."""
    table = min(set(history[one].versions) & set(history[two].versions))
    out = list(history)
    for place, other in ((one, two), (two, one)):
        versions = {**history[place].versions, table: history[other].versions[table]}
        out[place] = replace(history[place], versions=versions)
    return out
