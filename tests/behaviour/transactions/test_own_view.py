"""What a transaction sees: its own changes on one cut of the lake, whatever others do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import lakeward as lw
from tests.behaviour.lakes import append, column, overwrite


@pytest.fixture
def pair(shared_lake: lw.Lake, new_name: Callable[[], str]) -> tuple[str, str]:
    names = new_name(), new_name()
    for name in names:
        shared_lake.create(name, {"id": "int64", "v": "string"})
        append(shared_lake, name, {"id": [1, 2], "v": ["a", "b"]})
    return names


def test_a_transaction_reads_its_own_writes(shared_lake: lw.Lake, pair: tuple[str, str]) -> None:
    name, _ = pair
    with shared_lake.transaction() as tx:
        tx.append(name, {"id": [3], "v": ["c"]})
        assert column(tx.read(name)) == [1, 2, 3]
        tx.delete(name, where="id = 1")
        assert column(tx.read(name)) == [2, 3]
        tx.overwrite(name, {"id": [20], "v": ["B"]}, where="id = 20 OR v = 'b'")
        assert column(tx.read(name)) == [3, 20]
        tx.overwrite(name, {"id": [7], "v": ["z"]})
        assert tx.read(name).to_pylist() == [{"id": 7, "v": "z"}]
        assert column(shared_lake.table(name).to_arrow()) == [1, 2]

    assert shared_lake.table(name).to_arrow().to_pylist() == [{"id": 7, "v": "z"}]


def test_reads_take_columns_and_conditions(shared_lake: lw.Lake, pair: tuple[str, str]) -> None:
    name, _ = pair
    with shared_lake.transaction() as tx:
        tx.append(name, {"id": [3, 4], "v": ["c", None]})
        assert tx.read(name, columns=["v"], where="id >= 2").to_pylist() == [
            {"v": "b"},
            {"v": "c"},
            {"v": None},
        ]
        tx.rollback()


def test_what_others_commit_is_not_seen(shared_lake: lw.Lake, pair: tuple[str, str]) -> None:
    name, _ = pair
    tx = shared_lake.transaction()
    assert column(tx.read(name)) == [1, 2]
    append(shared_lake, name, {"id": [3], "v": ["c"]})
    overwrite(shared_lake, name, {"id": [9], "v": ["z"]})

    assert column(tx.read(name)) == [1, 2]
    tx.rollback()


def test_all_tables_are_seen_at_one_cut(shared_lake: lw.Lake, pair: tuple[str, str]) -> None:
    first, second = pair
    tx = shared_lake.transaction()
    tx.read(first)
    with shared_lake.transaction() as other:
        other.append(first, {"id": [3], "v": ["c"]})
        other.append(second, {"id": [3], "v": ["c"]})

    assert column(tx.read(second)) == [1, 2]
    tx.rollback()


def test_blind_appends_of_others_are_seen_until_the_first_look(
    shared_lake: lw.Lake, pair: tuple[str, str]
) -> None:
    name, _ = pair
    with shared_lake.transaction() as tx:
        tx.append(name, {"id": [10], "v": ["x"]})
        append(shared_lake, name, {"id": [3], "v": ["c"]})
        assert column(tx.read(name)) == [1, 2, 3, 10]


def test_rows_read_can_be_written_elsewhere(shared_lake: lw.Lake, pair: tuple[str, str]) -> None:
    first, second = pair
    with shared_lake.transaction() as tx:
        tx.overwrite(second, tx.read(first, where="id = 2"))

    assert column(shared_lake.table(second).to_arrow()) == [2]


def test_a_table_made_after_the_cut_can_still_be_written(
    shared_lake: lw.Lake, pair: tuple[str, str], name: str
) -> None:
    tx = shared_lake.transaction()
    tx.read(pair[0])
    shared_lake.create(name, {"id": "int64"})
    tx.append(name, {"id": [1]})

    assert dict(tx.commit().versions) == {name: 1}
