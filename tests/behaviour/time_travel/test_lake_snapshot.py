"""One cut over all tables: every transaction is in it with all its tables, or with none."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

import lakeward as lw
from lakeward.errors import TableNotFound, TransactionNotFound
from tests.behaviour.lakes import append, column, overwrite


@pytest.fixture
def pair(lake: lw.Lake) -> lw.Lake:
    for name in ("left", "right"):
        lake.create(name, {"id": "int64"})
    return lake


def _both(lake: lw.Lake, number: int) -> str:
    with lake.transaction() as tx:
        tx.append("right", {"id": [number]})
        tx.append("left", {"id": [number]})
    return tx.transaction_id


def test_a_cut_stays_as_it_was_while_others_commit(pair: lw.Lake) -> None:
    _both(pair, 1)
    with pair.snapshot() as snapshot:
        _both(pair, 2)
        overwrite(pair, "left", {"id": [9]})
        pair.create("late", {"id": "int64"})

        assert dict(snapshot.versions) == {"left": 1, "right": 1}
        assert column(snapshot.table("left").to_arrow()) == [1]
        assert column(snapshot.table("right").to_arrow()) == [1]
        assert [t.name for t in snapshot] == ["left", "right"]
        with pytest.raises(TableNotFound):
            snapshot.table("late")


def test_a_cut_survives_a_dropped_table(pair: lw.Lake) -> None:
    _both(pair, 1)
    with pair.snapshot() as snapshot:
        pair.drop("left")
        assert column(snapshot.table("left").to_arrow()) == [1]


def test_a_cut_by_time_holds_whole_transactions(pair: lw.Lake) -> None:
    _both(pair, 1)
    append(pair, "left", {"id": [100]})
    _both(pair, 2)
    for version in pair.table("left").history():
        with pair.snapshot(at=version.timestamp) as snapshot:
            if version.version:
                left = set(column(snapshot.table("left").to_arrow()))
                right = set(column(snapshot.table("right").to_arrow()))
                assert left - {100} == right


def test_a_cut_by_transaction_is_just_after_it(pair: lw.Lake) -> None:
    first = _both(pair, 1)
    _both(pair, 2)

    with pair.snapshot(at=first) as snapshot:
        assert column(snapshot.table("left").to_arrow()) == [1]
        assert column(snapshot.table("right").to_arrow()) == [1]
    with pytest.raises(TransactionNotFound):
        pair.snapshot(at="nobody-knows-this-one")


def test_tables_that_did_not_exist_then_are_not_in_the_cut(pair: lw.Lake) -> None:
    then = pair.table("right").history()[-1].timestamp
    pair.create("late", {"id": "int64"})

    with pair.snapshot(at=then) as snapshot:
        assert set(snapshot.versions) == {"left", "right"}
    with pair.snapshot(at=then - timedelta(days=1)) as snapshot:
        assert dict(snapshot.versions) == {}


def test_cuts_are_consistent_while_writers_commit(pair: lw.Lake) -> None:
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            _both(pair, number)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(20):
            with pair.snapshot() as snapshot:
                left = column(snapshot.table("left").to_arrow())
                right = column(snapshot.table("right").to_arrow())
                assert left == right
                assert snapshot.versions["left"] == snapshot.versions["right"] == len(left)
    finally:
        stop.set()
        writer.join()


def test_a_cut_can_be_read_without_pinning_it(pair: lw.Lake) -> None:
    _both(pair, 1)

    assert column(pair.snapshot().table("left").to_arrow()) == [1]
