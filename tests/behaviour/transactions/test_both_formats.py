"""One transaction over three Delta and two Iceberg tables: all of them change, or none."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

import lakeward as lw
from lakeward.errors import Conflict, ConstraintViolation
from tests.behaviour.lakes import append, column, data_files, delete, ids, overwrite, unchanged
from tests.behaviour.published import Told, told
from tests.support.iceberg import stranger_arrow, stranger_catalog

pytestmark = pytest.mark.formats("delta")

FORMATS = ("delta", "iceberg", "delta", "iceberg", "delta")


@pytest.fixture
def five(shared_lake: lw.Lake, new_name: Callable[[], str]) -> list[str]:
    """Tables with the ids 1 and 2, the second and the fourth of them Iceberg tables."""
    names = [new_name() for _ in FORMATS]
    for name, kind in zip(names, FORMATS, strict=True):
        checks = {"small": "id < 100"}
        shared_lake.create(name, {"id": "int64"}, format=kind, constraints=checks)
        append(shared_lake, name, {"id": [1]})
        append(shared_lake, name, {"id": [2]})
    return names


def _versions(lake: lw.Lake, names: list[str]) -> list[int]:
    return [lake.table(n).version for n in names]


def _rows(lake: lw.Lake, names: list[str]) -> list[list[int]]:
    return [ids(lake, n) for n in names]


def _outsiders(lake: lw.Lake, name: str) -> list[int]:
    """The ids that an engine which is not ours reads."""
    table = lake.table(name)
    if table.format == "iceberg":
        return column(stranger_arrow(lake, name))
    engine = QueryBuilder().register("t", DeltaTable(table.location))
    return column(pa.table(engine.execute("SELECT id FROM t")))


def _newest(lake: lw.Lake, names: list[str]) -> list[Told]:
    return [told(lake, n)[-1] for n in names]


def test_all_members_commit_as_one(shared_lake: lw.Lake, five: list[str]) -> None:
    a, b, c, d, e = five
    with shared_lake.transaction(message="month end") as tx:
        tx.append(e, {"id": [3]})
        tx.overwrite(d, {"id": [4]})
        tx.delete(c, where="id = 1")
        tx.delete(b, where="id = 1")
        tx.overwrite(a, {"id": [5]}, where="id = 5")
        assert _versions(shared_lake, five) == [2] * 5
        assert [tx.read(n)["id"].to_pylist() for n in (b, d)] == [[2], [4]]

    expected = [[1, 2, 5], [2], [2], [4], [1, 2, 3]]
    assert dict(tx.commit().versions) == dict.fromkeys(five, 3)
    assert _rows(shared_lake, five) == expected
    assert [_outsiders(shared_lake, n) for n in five] == expected


def test_every_member_carries_the_transaction_and_its_moment(
    shared_lake: lw.Lake, five: list[str]
) -> None:
    with shared_lake.transaction(message="why") as tx:
        for name in five:
            tx.append(name, {"id": [3]})

    result = tx.commit()
    assert result.timestamp is not None
    moment = round(result.timestamp.timestamp() * 1000)
    newest = [shared_lake.table(n).history(limit=1)[0] for n in five]
    assert {v.transaction_id for v in newest} == {tx.transaction_id}
    assert {v.timestamp for v in newest} == {result.timestamp}
    assert {v.members for v in newest} == {5}
    # The tables' own files say the same.
    assert {
        (t.transaction_id, t.timestamp_ms, t.members, t.message) for t in _newest(shared_lake, five)
    } == {(tx.transaction_id, moment, 5, "why")}


def test_all_members_roll_back_as_one(shared_lake: lw.Lake, five: list[str]) -> None:
    def stumble() -> None:
        with shared_lake.transaction() as tx:
            for name in five:
                tx.append(name, {"id": [3]})
            tx.delete(five[1], where="id = 1")
            raise RuntimeError

    with unchanged(shared_lake), pytest.raises(RuntimeError):
        stumble()


@pytest.mark.parametrize("member", range(5), ids=[f"{k} {n}" for n, k in enumerate(FORMATS)])
def test_a_conflict_in_any_member_commits_none(
    shared_lake: lw.Lake, five: list[str], member: int
) -> None:
    tx = shared_lake.transaction()
    for number, name in enumerate(five):
        if number == member:
            tx.overwrite(name, {"id": [9]})
        else:
            tx.append(name, {"id": [3]})
    append(shared_lake, five[member], {"id": [4]})
    before = _newest(shared_lake, five)

    with pytest.raises(Conflict) as caught:
        tx.commit()

    assert caught.value.table == five[member]
    assert _versions(shared_lake, five) == [3 if n == member else 2 for n in range(5)]
    assert _rows(shared_lake, five) == [[1, 2, 4] if n == member else [1, 2] for n in range(5)]
    assert _newest(shared_lake, five) == before
    assert [_outsiders(shared_lake, n) for n in five] == _rows(shared_lake, five)


@pytest.mark.parametrize("member", [0, 1])
def test_a_violation_in_any_member_commits_none(
    shared_lake: lw.Lake, five: list[str], member: int
) -> None:
    with unchanged(shared_lake), shared_lake.transaction() as tx:
        for name in five[2:]:
            tx.append(name, {"id": [3]})
        with pytest.raises(ConstraintViolation):
            tx.append(five[member], {"id": [100]})
        tx.rollback()


@pytest.mark.parametrize("loser", [0, 1], ids=["delta", "iceberg"])
def test_a_member_that_lost_a_race_is_rebased_alone(
    shared_lake: lw.Lake, five: list[str], loser: int
) -> None:
    """The files staged for the others are kept, and nothing is written again for them."""
    for name in five:
        append(shared_lake, name, {"id": [10, 11]})
    tx = shared_lake.transaction(isolation="read_committed")
    for name in five:
        tx.delete(name, where="id = 10")
    staged = [data_files(shared_lake, n) for n in five]
    delete(shared_lake, five[loser], "id = 11")

    result = tx.commit()

    assert result.attempts == 2
    assert _rows(shared_lake, five) == [[1, 2] if n == loser else [1, 2, 11] for n in range(5)]
    kept = [data_files(shared_lake, n) for n in five]
    assert [k == before for k, before in zip(kept, staged, strict=True)] == [
        n != loser for n in range(5)
    ]
    assert {t.attempts for t in _newest(shared_lake, five)} == {2}


def test_members_that_others_only_appended_to_are_not_touched_again(
    shared_lake: lw.Lake, five: list[str]
) -> None:
    tx = shared_lake.transaction()
    for name in five:
        tx.append(name, {"id": [3]})
    staged = [data_files(shared_lake, n) for n in five]
    for name in (five[1], five[2]):
        append(shared_lake, name, {"id": [4]})
    catalog = stranger_catalog(shared_lake)
    catalog.load_table(five[3]).append(pa.table({"id": [5]}))
    catalog.engine.dispose()

    result = tx.commit()

    assert result.attempts == 1
    assert [result.versions[n] for n in five] == [3, 4, 4, 4, 3]
    expected = [[1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 5], [1, 2, 3]]
    assert _rows(shared_lake, five) == expected
    assert [_outsiders(shared_lake, n) for n in five] == expected
    for name, files in zip(five, staged, strict=True):
        assert files <= data_files(shared_lake, name)


def test_another_engine_in_the_way_of_one_member_keeps_all_back(
    shared_lake: lw.Lake, five: list[str]
) -> None:
    tx = shared_lake.transaction()
    tx.append(five[0], {"id": [3]})
    tx.overwrite(five[1], {"id": [9]})
    catalog = stranger_catalog(shared_lake)
    catalog.load_table(five[1]).append(pa.table({"id": [5]}))
    catalog.engine.dispose()

    with pytest.raises(Conflict) as caught:
        tx.commit()

    assert caught.value.table == five[1]
    assert _rows(shared_lake, five[:2]) == [[1, 2], [1, 2, 5]]


def test_a_serializable_transaction_depends_on_what_it_read_of_the_other_format(
    shared_lake: lw.Lake, five: list[str]
) -> None:
    tx = shared_lake.transaction(isolation="serializable")
    count = tx.read(five[1]).num_rows
    tx.append(five[0], {"id": [count]})
    append(shared_lake, five[1], {"id": [3]})

    with pytest.raises(Conflict) as caught:
        tx.commit()

    assert caught.value.table == five[1]
    assert _rows(shared_lake, five[:2]) == [[1, 2], [1, 2, 3]]


def test_a_replay_by_id_commits_all_members_once(shared_lake: lw.Lake, five: list[str]) -> None:
    results = []
    for _ in range(2):
        with shared_lake.transaction(transaction_id=f"load-{five[0]}".replace(".", "-")) as tx:
            for name in five:
                tx.append(name, {"id": [3]})
        results.append(tx.commit())

    assert dict(results[0].versions) == dict(results[1].versions) == dict.fromkeys(five, 3)
    assert _rows(shared_lake, five) == [[1, 2, 3]] * 5


def test_progress_of_an_application_is_recorded_with_members_of_both_formats(
    shared_lake: lw.Lake, five: list[str]
) -> None:
    with shared_lake.transaction() as tx:
        for name in five:
            tx.record(name, "loader", 7)

    assert [shared_lake.table(n).app_version("loader") for n in five] == [7] * 5
    assert [t.applications for t in _newest(shared_lake, five)] == [{"loader": 7}] * 5


def test_a_cut_at_a_transaction_holds_it_whole_and_nothing_later(
    shared_lake: lw.Lake, five: list[str]
) -> None:
    with shared_lake.transaction() as tx:
        for name in five:
            tx.append(name, {"id": [3]})
    overwrite(shared_lake, five[0], {"id": [8]})
    overwrite(shared_lake, five[1], {"id": [8]})

    with shared_lake.snapshot(at=tx.transaction_id) as cut:
        found = [column(cut.table(n).to_arrow()) for n in five]
        theirs = stranger_arrow(shared_lake, five[1], cut.table(five[1]).snapshot_id)

    assert found == [[1, 2, 3]] * 5
    assert column(theirs) == [1, 2, 3]


def test_a_cut_never_shows_half_a_transaction_while_others_commit(
    shared_lake: lw.Lake, five: list[str]
) -> None:
    """Writers append a number to all tables at once; readers must find the same in each."""
    writers, each = 3, 6
    done = threading.Event()
    cuts: list[int] = []

    def write(writer: int) -> None:
        for n in range(each):
            with shared_lake.transaction() as tx:
                for step in range(5):
                    tx.append(five[(writer + step) % 5], {"id": [10 + writer * each + n]})
            if n == 0:
                let_some_look()

    def let_some_look() -> None:
        enough = len(cuts) + 3
        while len(cuts) < enough and not any(r.done() for r in readers):
            time.sleep(0.002)

    def read(_: int) -> None:
        while not done.is_set():
            with shared_lake.snapshot() as cut:
                found = [column(cut.table(n).to_arrow()) for n in five]
            assert found == [found[0]] * 5
            cuts.append(len(found[0]))

    with ThreadPoolExecutor(writers + 2) as pool:
        readers = [pool.submit(read, n) for n in range(2)]
        try:
            list(pool.map(write, range(writers)))
        finally:
            done.set()
        for reader in readers:
            reader.result()

    assert _rows(shared_lake, five) == [[1, 2, *range(10, 10 + writers * each)]] * 5
    assert any(2 < c < 2 + writers * each for c in cuts)
