"""Many threads on one lake object: nothing is lost, doubled or mixed up."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import lakeward as lw
from lakeward.errors import AlreadyExists
from tests.behaviour.lakes import append, ids
from tests.behaviour.published import told

_THREADS, _EACH = 8, 6


def test_appends_of_many_threads_are_all_there(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, {"id": "int64"})

    def work(thread: int) -> list[int]:
        return [append(shared_lake, name, {"id": [thread * _EACH + n]}) for n in range(_EACH)]

    with ThreadPoolExecutor(_THREADS) as pool:
        versions = [v for made in pool.map(work, range(_THREADS)) for v in made]

    assert sorted(versions) == list(range(1, _THREADS * _EACH + 1))
    assert ids(shared_lake, name) == list(range(_THREADS * _EACH))
    assert [v.version for v in table.versions()] == list(range(_THREADS * _EACH + 1))
    assert len(told(shared_lake, name)) == _THREADS * _EACH
    times = [v.timestamp for v in table.versions()]
    assert times == sorted(set(times))


def test_tables_made_at_once_by_many_threads(shared_lake: lw.Lake, name: str) -> None:
    """All want the same name: one gets it, the others are told."""

    def work(_: int) -> bool:
        try:
            shared_lake.create(name, {"id": "int64"})
        except AlreadyExists:
            return False
        return True

    with ThreadPoolExecutor(_THREADS) as pool:
        made = list(pool.map(work, range(_THREADS)))

    assert made.count(True) == 1
    assert append(shared_lake, name, {"id": [1]}) == 1


def test_readers_see_whole_versions_while_others_write(shared_lake: lw.Lake, name: str) -> None:
    """Every version has as many rows of each number as versions were committed before it."""
    table = shared_lake.create(name, {"id": "int64"})

    def write(_: int) -> None:
        for _ in range(_EACH):
            append(shared_lake, name, {"id": list(range(10))})

    def read(_: int) -> None:
        for _ in range(_EACH):
            found = table.to_arrow()["id"].value_counts().to_pylist()
            assert len({entry["counts"] for entry in found}) <= 1

    with ThreadPoolExecutor(6) as pool:
        jobs = [pool.submit(write, n) for n in range(3)] + [pool.submit(read, n) for n in range(3)]
        for job in jobs:
            job.result()

    assert table.totals().rows == 3 * _EACH * 10


def test_multi_table_transactions_of_many_threads_in_any_order(lake: lw.Lake) -> None:
    names = ["a", "b", "c"]
    for name in names:
        lake.create(name, {"id": "int64"})

    def work(thread: int) -> None:
        for n in range(_EACH):
            with lake.transaction() as tx:
                for step in range(3):
                    tx.append(names[(thread + step) % 3], {"id": [thread * _EACH + n]})

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))

    expected = list(range(6 * _EACH))
    assert [ids(lake, name) for name in names] == [expected] * 3
    by_id = [
        {v.transaction_id: v.timestamp for v in lake.table(name).versions()[1:]} for name in names
    ]
    assert by_id[0] == by_id[1] == by_id[2]
