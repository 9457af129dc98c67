"""Who may hold a table together with whom, and in which order they get it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import lakeward as lw
from lakeward.errors import Conflict, Deadlock, InvalidInput, Locked, TableNotFound
from tests.behaviour.lakes import append, data_files, ids
from tests.behaviour.locks.waiting import is_free, meanwhile, numbered, refused, until_waits


@pytest.fixture
def table(shared_lake: lw.Lake, name: str) -> str:
    shared_lake.create(name, {"id": "int64"})
    return name


@pytest.mark.parametrize(
    ("held", "asked", "granted"),
    [
        ("read", "read", True),
        ("read", "write", False),
        ("write", "read", False),
        ("write", "write", False),
    ],
)
def test_readers_share_a_table_and_a_writer_has_it_alone(
    shared_lake: lw.Lake, table: str, held: str, asked: str, granted: bool
) -> None:
    with shared_lake.transaction() as tx:
        tx.lock(table, mode=held)
        assert is_free(shared_lake, table, asked) is granted
    assert is_free(shared_lake, table, asked)


def test_locks_of_different_tables_do_not_meet(
    shared_lake: lw.Lake, table: str, new_name: Callable[[], str]
) -> None:
    other = new_name()
    shared_lake.create(other, {"id": "int64"})
    with shared_lake.transaction() as tx:
        tx.lock(table)
        assert is_free(shared_lake, other)


@pytest.mark.parametrize("again", ["read", "write"])
def test_who_has_a_table_for_writing_may_ask_again_and_keeps_it_so(
    shared_lake: lw.Lake, table: str, again: str
) -> None:
    with shared_lake.transaction() as tx:
        tx.lock(table)
        tx.lock(table, mode=again, timeout=0)
        assert not is_free(shared_lake, table, "read")


def test_a_lone_reader_becomes_the_writer(shared_lake: lw.Lake, table: str) -> None:
    with shared_lake.transaction() as tx:
        tx.lock(table, mode="read")
        tx.lock(table, mode="write", timeout=0)
        assert not is_free(shared_lake, table, "read")


def test_a_reader_becomes_the_writer_when_the_other_reader_is_done(
    shared_lake: lw.Lake, table: str
) -> None:
    other, tx = shared_lake.transaction(), shared_lake.transaction()
    other.lock(table, mode="read")
    tx.lock(table, mode="read")
    with meanwhile(lambda: tx.lock(table)) as upgrade:
        until_waits(shared_lake, table, tx.transaction_id)
        assert not upgrade.done()
        other.rollback()
    assert upgrade.result() is None
    assert not is_free(shared_lake, table, "read")
    tx.rollback()


def test_two_readers_that_both_want_to_write_are_a_deadlock_and_the_younger_gives_way(
    shared_lake: lw.Lake, table: str
) -> None:
    older, younger = numbered(shared_lake, 1, table), numbered(shared_lake, 2, table)
    older.lock(table, mode="read")
    younger.lock(table, mode="read")
    with meanwhile(lambda: older.lock(table)) as upgrade:
        until_waits(shared_lake, table, older.transaction_id)
        with pytest.raises(Deadlock) as caught:
            younger.lock(table)
    assert upgrade.result() is None
    assert caught.value.transaction_id == younger.transaction_id
    assert sorted(caught.value.cycle) == [older.transaction_id, younger.transaction_id]
    assert caught.value.tables == [table]
    assert caught.value.retryable
    assert isinstance(caught.value, Conflict)
    assert not younger.is_open
    older.rollback()


def test_a_reader_who_comes_later_does_not_overtake_a_writer_who_waits(
    shared_lake: lw.Lake, table: str
) -> None:
    reader, writer = shared_lake.transaction(), shared_lake.transaction()
    reader.lock(table, mode="read")
    with meanwhile(lambda: writer.lock(table)) as waiting:
        until_waits(shared_lake, table, writer.transaction_id)
        late = shared_lake.transaction()
        assert refused(late, table, "read").holders == [writer.transaction_id]
        late.rollback()
        reader.lock(table, mode="read", timeout=0)
        reader.rollback()
    assert waiting.result() is None
    writer.rollback()


def test_writers_get_their_turn_in_the_order_in_which_they_came(
    shared_lake: lw.Lake, table: str
) -> None:
    order: list[int] = []

    def work(number: int, tx: lw.Transaction) -> None:
        tx.lock(table)
        order.append(number)
        tx.rollback()

    first, second, third = (shared_lake.transaction() for _ in range(3))
    first.lock(table)
    with meanwhile(lambda: work(2, second)):
        until_waits(shared_lake, table, second.transaction_id)
        with meanwhile(lambda: work(3, third)):
            until_waits(shared_lake, table, second.transaction_id, third.transaction_id)
            first.rollback()
    assert order == [2, 3]


def test_a_lock_that_is_not_to_be_had_names_the_table_the_holder_and_how_long(
    shared_lake: lw.Lake, table: str
) -> None:
    with shared_lake.transaction() as holder, shared_lake.transaction() as tx:
        holder.lock(table)
        with pytest.raises(Locked) as caught:
            tx.lock(table, mode="read", timeout=0.05)
        error = caught.value
        assert error.holders == [holder.transaction_id]
        assert (error.table, error.mode) == (table, "read")
        assert error.held_seconds > 0
        assert error.waited_seconds >= 0.05
        (lock,) = [found for found in shared_lake.locks() if found.table == table]
        for part in (table, holder.transaction_id, lock.actor, lock.process, "for writing", " s "):
            assert part in error.what
        assert "lakeward locks" in str(error.hint)
        assert error.retryable
        assert not isinstance(error, Conflict)


def test_a_transaction_goes_on_without_a_lock_that_it_did_not_get(
    shared_lake: lw.Lake, table: str, new_name: Callable[[], str]
) -> None:
    other = new_name()
    shared_lake.create(other, {"id": "int64"})
    with shared_lake.transaction() as holder:
        holder.lock(table)
        with shared_lake.transaction() as tx:
            refused(tx, table)
            tx.append(other, {"id": [1]})
    assert ids(shared_lake, other) == [1]


def test_who_gave_up_waiting_waits_no_more(shared_lake: lw.Lake, table: str) -> None:
    reader, writer = shared_lake.transaction(), shared_lake.transaction()
    reader.lock(table, mode="read")
    with pytest.raises(Locked):
        writer.lock(table, timeout=0.01)
    assert [lock.waiters for lock in shared_lake.locks() if lock.table == table] == [()]
    assert is_free(shared_lake, table, "read")
    reader.rollback()
    writer.rollback()


@pytest.mark.parametrize("end", ["commit", "empty commit", "rollback", "error", "failed operation"])
def test_locks_end_with_the_transaction_however_it_ends(
    shared_lake: lw.Lake, table: str, end: str
) -> None:
    tx = shared_lake.transaction(locks={table: "write"})
    assert not is_free(shared_lake, table)
    if end == "commit":
        tx.append(table, {"id": [1]})
        tx.commit()
    elif end == "empty commit":
        tx.commit()
    elif end == "rollback":
        tx.rollback()
    elif end == "error":
        with pytest.raises(ZeroDivisionError), tx:
            raise ZeroDivisionError
    else:
        with pytest.raises(InvalidInput):
            tx.append(table, {"nonsense": [1]})
    assert is_free(shared_lake, table)
    assert [lock for lock in shared_lake.locks() if lock.table == table] == []


def test_a_transaction_that_gave_way_leaves_no_trace(
    shared_lake: lw.Lake, table: str, new_name: Callable[[], str]
) -> None:
    other = new_name()
    shared_lake.create(other, {"id": "int64"})
    older = numbered(shared_lake, 1, table, locks={table: "write"})
    younger = numbered(shared_lake, 2, table, locks={other: "write"})
    younger.append(other, {"id": [1]})
    with meanwhile(lambda: older.lock(other)) as waiting:
        until_waits(shared_lake, other, older.transaction_id)
        with pytest.raises(Deadlock):
            younger.lock(table)
    assert waiting.result() is None
    older.rollback()
    assert shared_lake.table(other).version == 0
    assert data_files(shared_lake, other) == set()
    assert shared_lake.locks() == []


@pytest.mark.before_the_store
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"mode": "exclusive"}, InvalidInput),
        ({"mode": 7}, InvalidInput),
        ({"timeout": -1}, InvalidInput),
        ({"timeout": "long"}, InvalidInput),
    ],
)
def test_a_senseless_lock_is_refused_and_the_transaction_goes_on(
    shared_lake: lw.Lake, table: str, arguments: dict[str, object], error: type[Exception]
) -> None:
    with shared_lake.transaction() as tx:
        with pytest.raises(error):
            tx.lock(table, **arguments)  # type: ignore[arg-type]
        assert is_free(shared_lake, table)
        tx.append(table, {"id": [1]})
    assert ids(shared_lake, table) == [1]


def test_a_table_that_is_not_there_cannot_be_locked(shared_lake: lw.Lake) -> None:
    tx = shared_lake.transaction()
    with pytest.raises(TableNotFound):
        tx.lock("nowhere.nothing")


def test_looking_at_a_locked_table_needs_no_lock(shared_lake: lw.Lake, table: str) -> None:
    append(shared_lake, table, {"id": [1]})
    with shared_lake.transaction() as holder:
        holder.lock(table)
        assert ids(shared_lake, table) == [1]
        with shared_lake.transaction() as tx, shared_lake.snapshot() as cut:
            assert tx.read(table).num_rows == cut.table(table).to_arrow().num_rows == 1
