"""Isolation levels: which anomalies each one lets happen."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import lakeward as lw
from lakeward.errors import Conflict
from tests.behaviour.lakes import append, column, delete, ids, overwrite

LEVELS = ("read_committed", "snapshot", "serializable")


@pytest.fixture
def pair(shared_lake: lw.Lake, new_name: Callable[[], str]) -> tuple[str, str]:
    names = new_name(), new_name()
    for name in names:
        shared_lake.create(name, {"id": "int64"})
        append(shared_lake, name, {"id": [1, 2]})
    return names


@pytest.mark.parametrize("level", LEVELS)
def test_nobody_sees_what_is_not_committed(
    shared_lake: lw.Lake, pair: tuple[str, str], level: str
) -> None:
    writer = shared_lake.transaction()
    writer.append(pair[0], {"id": [3]})

    with shared_lake.transaction(isolation=level) as reader:
        assert column(reader.read(pair[0])) == [1, 2]
    writer.rollback()


@pytest.mark.parametrize("level", ["snapshot", "serializable"])
def test_updates_are_not_lost(shared_lake: lw.Lake, pair: tuple[str, str], level: str) -> None:
    name, _ = pair
    tx = shared_lake.transaction(isolation=level)
    (most,) = {max(column(tx.read(name)))}
    tx.overwrite(name, {"id": [most + 1]})
    overwrite(shared_lake, name, {"id": [100]})

    with pytest.raises(Conflict):
        tx.commit()
    assert ids(shared_lake, name) == [100]


@pytest.mark.parametrize("level", ["snapshot", "serializable"])
def test_reads_repeat(shared_lake: lw.Lake, pair: tuple[str, str], level: str) -> None:
    tx = shared_lake.transaction(isolation=level)
    before = tx.read(pair[0])
    delete(shared_lake, pair[0], "id = 1")

    assert tx.read(pair[0]).equals(before)
    tx.rollback()


@pytest.mark.parametrize(("level", "allowed"), [("snapshot", True), ("serializable", False)])
def test_writing_by_what_was_read_in_the_same_table(
    shared_lake: lw.Lake, pair: tuple[str, str], level: str, *, allowed: bool
) -> None:
    """Two transactions each read all rows and append: serially, the second would have seen more."""
    name, _ = pair
    txs = [shared_lake.transaction(isolation=level) for _ in range(2)]
    for tx in txs:
        tx.append(name, {"id": [tx.read(name).num_rows + 10]})
    txs[0].commit()

    if allowed:
        txs[1].commit()
        assert ids(shared_lake, name) == [1, 2, 12, 12]
    else:
        with pytest.raises(Conflict):
            txs[1].commit()
        assert ids(shared_lake, name) == [1, 2, 12]


@pytest.mark.parametrize(("level", "allowed"), [("snapshot", True), ("serializable", False)])
def test_write_skew_over_two_tables(
    shared_lake: lw.Lake, pair: tuple[str, str], level: str, *, allowed: bool
) -> None:
    """Each reads the table that the other one writes: serially, one would have seen the other."""
    first, second = pair
    one = shared_lake.transaction(isolation=level)
    two = shared_lake.transaction(isolation=level)
    one.append(second, {"id": [one.read(first).num_rows + 10]})
    two.append(first, {"id": [two.read(second).num_rows + 10]})
    one.commit()

    if allowed:
        two.commit()
        assert (ids(shared_lake, first), ids(shared_lake, second)) == ([1, 2, 12], [1, 2, 12])
    else:
        with pytest.raises(Conflict) as caught:
            two.commit()
        assert caught.value.table == second
        assert (ids(shared_lake, first), ids(shared_lake, second)) == ([1, 2], [1, 2, 12])


def test_a_serializable_transaction_minds_rows_that_were_removed(
    shared_lake: lw.Lake, pair: tuple[str, str]
) -> None:
    first, second = pair
    tx = shared_lake.transaction(isolation="serializable")
    tx.append(second, tx.read(first, where="id = 1"))
    delete(shared_lake, first, "id = 1")

    with pytest.raises(Conflict):
        tx.commit()
    assert ids(shared_lake, second) == [1, 2]


def test_a_serializable_transaction_minds_only_what_it_read(
    shared_lake: lw.Lake, pair: tuple[str, str]
) -> None:
    name, _ = pair
    with shared_lake.transaction(isolation="serializable") as tx:
        tx.append(name, {"id": [tx.read(name, where="id < 10").num_rows]})
        append(shared_lake, name, {"id": [50]})

    assert ids(shared_lake, name) == [1, 2, 2, 50]


def test_a_serializable_transaction_that_only_reads_commits(
    shared_lake: lw.Lake, pair: tuple[str, str]
) -> None:
    with shared_lake.transaction(isolation="serializable") as tx:
        tx.read(pair[0])
        append(shared_lake, pair[0], {"id": [3]})

    assert dict(tx.commit().versions) == {}


def test_a_serializable_blind_append_meets_no_conflict(
    shared_lake: lw.Lake, pair: tuple[str, str]
) -> None:
    with shared_lake.transaction(isolation="serializable") as tx:
        tx.append(pair[0], {"id": [3]})
        overwrite(shared_lake, pair[0], {"id": [9]})

    assert ids(shared_lake, pair[0]) == [3, 9]


@pytest.mark.parametrize("level", [level.upper() for level in LEVELS])
def test_levels_may_be_written_in_capitals(shared_lake: lw.Lake, level: str) -> None:
    assert shared_lake.transaction(isolation=level).isolation.value == level.lower()
