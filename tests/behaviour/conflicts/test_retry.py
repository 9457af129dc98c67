"""`lake.run`: the whole function again after a conflict, and no more often than needed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

import lakeward as lw
from lakeward.errors import Conflict, InvalidInput, SchemaMismatch
from tests.behaviour.lakes import append, data_files, ids, overwrite, unchanged
from tests.behaviour.published import told

_QUICK = lw.Retry(attempts=5, first_delay_seconds=0.001, longest_delay_seconds=0.002)


@pytest.fixture
def counter(shared_lake: lw.Lake, name: str) -> lw.Table:
    table = shared_lake.create(name, {"id": "int64"})
    append(shared_lake, name, {"id": [0]})
    return table


def _increase(tx: lw.Transaction, name: str) -> None:
    (number,) = tx.read(name)["id"].to_pylist()
    tx.overwrite(name, {"id": [number + 1]})


def test_work_without_conflict_is_done_once(shared_lake: lw.Lake, counter: lw.Table) -> None:
    result = shared_lake.run(lambda tx: _increase(tx, counter.name), message="why")

    assert result.attempts == 1
    assert dict(result.versions) == {counter.name: 2}
    newest = counter.history(limit=1)[0]
    assert (newest.attempts, newest.message) == (1, "why")


def test_work_is_done_again_after_a_conflict(shared_lake: lw.Lake, counter: lw.Table) -> None:
    calls: list[str] = []

    def work(tx: lw.Transaction) -> None:
        _increase(tx, counter.name)
        calls.append(tx.transaction_id)
        if len(calls) < 3:
            overwrite(shared_lake, counter.name, {"id": [len(calls) * 100]})

    result = shared_lake.run(work, retry=_QUICK)

    assert len(set(calls)) == 3
    assert result.attempts == 3
    assert ids(shared_lake, counter.name) == [201]
    assert counter.history(limit=1)[0].attempts == 3
    assert told(shared_lake, counter.name)[-1].attempts == 3


def test_work_that_always_loses_raises_the_conflict(
    shared_lake: lw.Lake, counter: lw.Table
) -> None:
    calls = []

    def work(tx: lw.Transaction) -> None:
        _increase(tx, counter.name)
        calls.append(1)
        overwrite(shared_lake, counter.name, {"id": [0]})

    with pytest.raises(Conflict):
        shared_lake.run(work, retry=_QUICK)

    assert len(calls) == _QUICK.attempts
    known = {f.path for v in range(counter.version + 1) for f in counter.at(version=v).files()}
    assert data_files(shared_lake, counter.name) == known


def test_other_errors_are_not_tried_again(shared_lake: lw.Lake, counter: lw.Table) -> None:
    calls = []

    def work(tx: lw.Transaction) -> None:
        calls.append(1)
        tx.append(counter.name, {"nope": [1]})

    with unchanged(shared_lake), pytest.raises(SchemaMismatch):
        shared_lake.run(work)
    assert len(calls) == 1


def test_errors_of_the_function_pass_through(shared_lake: lw.Lake, counter: lw.Table) -> None:
    def work(tx: lw.Transaction) -> None:
        _increase(tx, counter.name)
        raise ZeroDivisionError

    with unchanged(shared_lake), pytest.raises(ZeroDivisionError):
        shared_lake.run(work)


def test_the_function_may_commit_by_itself(shared_lake: lw.Lake, counter: lw.Table) -> None:
    def work(tx: lw.Transaction) -> None:
        _increase(tx, counter.name)
        tx.commit()

    result = shared_lake.run(work)

    assert dict(result.versions) == {counter.name: 2}


def test_many_threads_count_right(shared_lake: lw.Lake, counter: lw.Table) -> None:
    """Lost updates would leave the counter too low."""
    patient = lw.Retry(attempts=200)

    def work(_: int) -> None:
        for _ in range(5):
            shared_lake.run(lambda tx: _increase(tx, counter.name), retry=patient)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))

    assert ids(shared_lake, counter.name) == [20]
    assert counter.version == 21


def test_a_tables_policy_says_how_often_it_is_tried(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(
        name,
        {"id": "int64"},
        policy={"retry_attempts": 3, "retry_first_delay_seconds": 0.001, "retry_jitter": 0.5},
    )
    append(shared_lake, name, {"id": [0]})
    calls: list[int] = []

    def work(tx: lw.Transaction) -> None:
        _increase(tx, name)
        calls.append(1)
        overwrite(shared_lake, name, {"id": [0]})

    with pytest.raises(Conflict):
        shared_lake.run(work)
    assert len(calls) == 3
    assert table.properties["lakeward.retry.attempts"] == "3"

    calls.clear()
    with pytest.raises(Conflict):
        shared_lake.run(work, retry=lw.Retry(attempts=2, first_delay_seconds=0.001))
    assert len(calls) == 2


def test_the_policy_of_the_table_that_the_conflict_is_over_counts(
    shared_lake: lw.Lake, counter: lw.Table, new_name: Callable[[], str]
) -> None:
    hasty = new_name()
    shared_lake.create(hasty, {"id": "int64"}, properties={"lakeward.retry.attempts": "1"})
    append(shared_lake, hasty, {"id": [0]})
    calls: list[int] = []

    def work(tx: lw.Transaction) -> None:
        _increase(tx, hasty)
        _increase(tx, counter.name)
        calls.append(1)
        if len(calls) == 1:
            overwrite(shared_lake, counter.name, {"id": [5]})
        else:
            overwrite(shared_lake, hasty, {"id": [5]})

    with pytest.raises(Conflict) as caught:
        shared_lake.run(work)
    assert (caught.value.table, len(calls)) == (hasty, 2)


@pytest.mark.parametrize(
    ("policy", "value"),
    [
        ("retry_attempts", 0),
        ("retry_attempts", "many"),
        ("retry_jitter", 1.5),
        ("retry_first_delay_seconds", -1),
        ("retry_longest_delay_seconds", "nan"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(
    shared_lake: lw.Lake, name: str, policy: str, value: object
) -> None:
    with unchanged(shared_lake), pytest.raises(InvalidInput) as caught:
        shared_lake.create(name, {"id": "int64"}, policy={policy: value})
    assert caught.value.parameter == policy


def test_delays_double_up_to_the_longest_and_chance_takes_its_share() -> None:
    steady = lw.Retry(first_delay_seconds=0.5, longest_delay_seconds=3.0, jitter=0)
    assert [steady.delay(n) for n in range(1, 6)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert steady.delay(10_000) == 3.0

    half = lw.Retry(first_delay_seconds=1.0, longest_delay_seconds=1.0, jitter=0.5)
    found = [half.delay(1) for _ in range(200)]
    assert 0.5 <= min(found) < 0.75 < max(found) <= 1.0


@pytest.mark.local
def test_what_happens_is_counted(lake: lw.Lake) -> None:
    lake.create("t", {"id": "int64"})
    append(lake, "t", {"id": [1, 2]})
    calls: list[int] = []

    def work(tx: lw.Transaction) -> None:
        tx.delete("t", where="id = 1")
        calls.append(1)
        if len(calls) == 1:
            overwrite(lake, "t", {"id": [1, 2]})

    lake.run(work)
    with lake.transaction(isolation="read_committed") as tx:
        tx.delete("t", where="id = 2")
        overwrite(lake, "t", {"id": [2]})

    assert lake.counters() == {"commits": 5, "conflicts": 2, "reruns": 1, "settled": 1}
