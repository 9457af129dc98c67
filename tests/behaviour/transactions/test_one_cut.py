"""`snapshot` and `serializable` see one cut over all tables, whatever they touched before it."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeward as lw
from lakeward.errors import Conflict, TableNotFound
from tests.behaviour.lakes import append, column, ids, overwrite
from tests.support.s3 import on_disk

CUTTING = ("snapshot", "serializable")


@pytest.fixture
def pair(shared_lake: lw.Lake, new_name: Callable[[], str]) -> tuple[str, str]:
    names = new_name(), new_name()
    for name in names:
        shared_lake.create(name, {"id": "int64"})
        append(shared_lake, name, {"id": [1]})
    return names


def _both(lake: lw.Lake, pair: tuple[str, str], number: int) -> None:
    with lake.transaction() as tx:
        for name in pair:
            tx.append(name, {"id": [number]})


@pytest.mark.parametrize("level", CUTTING)
def test_a_table_that_was_added_to_before_is_seen_at_the_cut_too(
    shared_lake: lw.Lake, pair: tuple[str, str], level: str
) -> None:
    """Seen at its own first touch, `left` would lack what `right` has of the same transaction."""
    left, right = pair
    tx = shared_lake.transaction(isolation=level)
    tx.append(left, {"id": [100]})
    _both(shared_lake, pair, 2)

    assert column(tx.read(right)) == [1, 2]
    assert column(tx.read(left)) == [1, 2, 100]
    tx.rollback()


@pytest.mark.parametrize("level", CUTTING)
def test_a_table_that_is_looked_at_late_is_seen_at_the_cut(
    shared_lake: lw.Lake, pair: tuple[str, str], level: str
) -> None:
    left, right = pair
    tx = shared_lake.transaction(isolation=level)
    assert column(tx.read(left)) == [1]
    _both(shared_lake, pair, 2)
    tx.append(right, {"id": [100]})

    assert column(tx.read(right)) == [1, 100]
    tx.rollback()


@pytest.mark.parametrize("level", CUTTING)
def test_a_table_that_is_younger_than_the_cut_is_not_there(
    shared_lake: lw.Lake, pair: tuple[str, str], level: str, new_name: Callable[[], str]
) -> None:
    late = new_name()
    tx = shared_lake.transaction(isolation=level)
    tx.read(pair[0])
    shared_lake.create(late, {"id": "int64"})

    with pytest.raises(TableNotFound) as caught:
        tx.read(late)
    assert caught.value.table == late
    tx.rollback()


def test_rows_can_be_added_to_a_table_that_is_younger_than_the_cut(
    shared_lake: lw.Lake, pair: tuple[str, str], new_name: Callable[[], str]
) -> None:
    late = new_name()
    with shared_lake.transaction() as tx:
        tx.read(pair[0])
        shared_lake.create(late, {"id": "int64"})
        tx.append(late, {"id": [7]})

    assert ids(shared_lake, late) == [7]


@pytest.mark.parametrize("level", CUTTING)
def test_a_dropped_table_is_still_seen_at_the_cut(
    shared_lake: lw.Lake, pair: tuple[str, str], level: str
) -> None:
    tx = shared_lake.transaction(isolation=level)
    tx.read(pair[0])
    shared_lake.drop(pair[1])

    assert column(tx.read(pair[1])) == [1]
    tx.rollback()


def test_a_table_that_was_added_to_and_dropped_is_not_mistaken_for_its_successor(
    shared_lake: lw.Lake, pair: tuple[str, str]
) -> None:
    left, right = pair
    tx = shared_lake.transaction()
    tx.append(left, {"id": [2]})
    shared_lake.drop(left)
    shared_lake.create(left, {"id": "int64"})

    with pytest.raises(TableNotFound):
        tx.read(right)
    tx.rollback()
    assert ids(shared_lake, left) == []


def test_a_file_that_somebody_else_added_before_the_cut_is_not_added_again(
    shared_lake: lw.Lake, pair: tuple[str, str]
) -> None:
    left, right = pair
    place = on_disk(shared_lake.table(left).location)
    pq.write_table(pa.table({"id": [5]}), place / "by-hand.parquet")
    tx = shared_lake.transaction()
    tx.add_files(left, ["by-hand.parquet"])
    with shared_lake.transaction() as other:
        other.add_files(left, ["by-hand.parquet"])

    with pytest.raises(Conflict) as caught:
        tx.read(right)
    assert caught.value.kind == "path"
    tx.rollback()
    assert ids(shared_lake, left) == [1, 5]


@pytest.mark.parametrize("level", CUTTING)
def test_cuts_are_whole_while_writers_commit(
    shared_lake: lw.Lake, pair: tuple[str, str], level: str
) -> None:
    stop = threading.Event()

    def write() -> None:
        number = 1
        while not stop.is_set():
            number += 1
            with shared_lake.transaction() as tx:
                for name in pair:
                    tx.overwrite(name, {"id": [number]})

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for turn in range(20):
            tx = shared_lake.transaction(isolation=level)
            first, second = pair if turn % 2 else reversed(pair)
            tx.record(second, "app", turn)
            assert column(tx.read(first)) == column(tx.read(second))
            tx.rollback()
    finally:
        stop.set()
        writer.join()


def test_a_serializable_transaction_minds_a_table_that_it_did_not_find(
    shared_lake: lw.Lake, pair: tuple[str, str], new_name: Callable[[], str]
) -> None:
    missing = new_name()
    tx = shared_lake.transaction(isolation="serializable")
    with pytest.raises(TableNotFound):
        tx.read(missing)
    tx.append(pair[0], {"id": [404]})
    shared_lake.create(missing, {"id": "int64"})

    with pytest.raises(Conflict) as caught:
        tx.commit()
    assert (caught.value.table, caught.value.kind) == (missing, "read")
    assert ids(shared_lake, pair[0]) == [1]


def test_a_snapshot_transaction_does_not_mind_a_table_that_it_did_not_find(
    shared_lake: lw.Lake, pair: tuple[str, str], new_name: Callable[[], str]
) -> None:
    missing = new_name()
    with shared_lake.transaction() as tx:
        with pytest.raises(TableNotFound):
            tx.read(missing)
        tx.append(pair[0], {"id": [404]})
        shared_lake.create(missing, {"id": "int64"})

    assert ids(shared_lake, pair[0]) == [1, 404]


def test_an_overwritten_table_reads_the_same_at_the_cut(
    shared_lake: lw.Lake, pair: tuple[str, str]
) -> None:
    tx = shared_lake.transaction()
    tx.read(pair[0])
    overwrite(shared_lake, pair[1], {"id": [9]})

    assert column(tx.read(pair[1])) == [1]
    tx.rollback()
