"""What is recorded along with a transaction is there exactly when the transaction is."""

from __future__ import annotations

import pytest

import lakeward as lw
from lakeward.errors import Conflict
from lakeward.log import inputs, runs
from lakeward.log.database import Session
from lakeward.model.inputs import Cursor, InputFile
from tests.support.inside import context_of

FILE = InputFile("/landing/a.parquet", 10, 1, "sha256:00")


def taking(transaction: lw.Transaction, *files: InputFile) -> None:
    def record(session: Session) -> None:
        if not inputs.take(session, "shop", "orders", files, transaction.transaction_id):
            what = "taken"
            raise Conflict(what)

    transaction.on_ratify(record)


def taken(lake: lw.Lake) -> set[str]:
    with context_of(lake).database.read() as session:
        return set(inputs.files(session, "shop", "orders"))


def test_inputs_are_recorded_with_the_commit(lake: lw.Lake) -> None:
    lake.create("t", {"id": "int64"})
    with lake.transaction() as tx:
        taking(tx, FILE)
        tx.append("t", {"id": [1]})
        assert not taken(lake)
    assert taken(lake) == {FILE.path}


def test_inputs_of_a_rolled_back_transaction_are_still_to_be_taken(lake: lw.Lake) -> None:
    lake.create("t", {"id": "int64"})
    tx = lake.transaction()
    taking(tx, FILE)
    tx.append("t", {"id": [1]})
    tx.rollback()
    assert not taken(lake)
    assert lake.table("t").version == 0


def test_an_input_that_somebody_took_meanwhile_keeps_everything_back(lake: lw.Lake) -> None:
    table = lake.create("t", {"id": "int64"})
    late = lake.transaction()
    taking(late, FILE)
    late.append("t", {"id": [2]})
    with lake.transaction() as early:
        taking(early, FILE)
        early.append("t", {"id": [1]})
    with pytest.raises(Conflict):
        late.commit()
    assert table.to_arrow()["id"].to_pylist() == [1]


def test_inputs_without_a_row_to_write_are_recorded_all_the_same(lake: lw.Lake) -> None:
    tx = lake.transaction()
    taking(tx, FILE)
    run = runs.Run(tx.transaction_id, "shop", "ratified", 1, 2, {"rows": 0})
    tx.on_ratify(lambda session: runs.put(session, run))
    result = tx.commit()
    assert result.versions == {}
    assert taken(lake) == {FILE.path}
    with context_of(lake).database.read() as session:
        assert runs.one(session, tx.transaction_id) == run
        assert runs.newest(session, "shop", 5) == [run]
        assert runs.newest(session, "other", 5) == []
        assert runs.newest(session, None, 5) == [run]


def test_a_run_that_is_ratified_is_not_recorded_as_failed(lake: lw.Lake) -> None:
    failed, done, more = (
        runs.Run("r", "shop", state, 1, ended, {"rows": ended})
        for state, ended in (("failed", 2), ("ratified", 3), ("ratified", 4))
    )
    for new, expected in ((failed, failed), (done, done), (failed, done), (more, more)):
        with context_of(lake).database.write() as session:
            runs.put(session, new)
            assert runs.one(session, "r") == expected


def test_a_cursor_moves_once_for_those_who_saw_it_at_the_same_place(lake: lw.Lake) -> None:
    first, second = Cursor(1, 4, "a"), Cursor(1, 7, "b")
    with context_of(lake).database.write() as session:
        assert inputs.position(session, "shop", "orders") is None
        assert inputs.move(session, "shop", "orders", None, first)
        assert not inputs.move(session, "shop", "orders", None, second)
        assert inputs.move(session, "shop", "orders", first, second)
        assert not inputs.move(session, "shop", "orders", first, second)
        assert inputs.position(session, "shop", "orders") == second


def test_a_chosen_id_that_was_ratified_records_nothing_again(lake: lw.Lake) -> None:
    lake.create("t", {"id": "int64"})
    for _ in range(2):
        with lake.transaction(transaction_id="once") as tx:
            tx.append("t", {"id": [1]})
            taking(tx, FILE)
    assert taken(lake) == {FILE.path}
