"""`lake.run`: the whole function again after a conflict, and no more often than needed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import orjson
import pytest

import lakeward as lw
from lakeward.errors import Conflict, SchemaMismatch
from tests.behaviour.lakes import append, data_files, ids, log_files, overwrite, unchanged

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
    info = orjson.loads(log_files(shared_lake, counter.name)[-1].read_bytes().splitlines()[0])
    assert info["commitInfo"]["tags"]["lakeward.attempts"] == "3"


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
