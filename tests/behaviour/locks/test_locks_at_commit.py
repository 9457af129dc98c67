"""Locks bind those who have none: a commit waits for a table that somebody else holds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import lakeward as lw
from lakeward.errors import Conflict, Deadlock, Locked, TransactionClosed
from tests.behaviour.lakes import append, delete, ids, overwrite, unchanged
from tests.behaviour.locks.waiting import is_free, meanwhile, numbered, until_waits
from tests.support.leases import run_out


@pytest.fixture(params=["delta", "iceberg"])
def table(shared_lake: lw.Lake, name: str, request: pytest.FixtureRequest) -> str:
    shared_lake.create(name, {"id": "int64"}, format=request.param)
    append(shared_lake, name, {"id": [1]})
    return name


def _append(tx: lw.Transaction, table: str) -> None:
    tx.append(table, {"id": [9]})


def _look_and_append(tx: lw.Transaction, table: str) -> None:
    tx.read(table)
    tx.append(table, {"id": [9]})


def _delete(tx: lw.Transaction, table: str) -> None:
    tx.delete(table, where="id = 1")


def _overwrite(tx: lw.Transaction, table: str) -> None:
    tx.overwrite(table, {"id": [9]})


@pytest.mark.parametrize(
    ("mode", "change", "passes"),
    [
        ("read", _append, True),
        ("read", _look_and_append, False),
        ("read", _delete, False),
        ("read", _overwrite, False),
        ("write", _append, False),
        ("write", _look_and_append, False),
        ("write", _delete, False),
        ("write", _overwrite, False),
    ],
)
def test_a_read_lock_lets_blind_appends_pass_and_a_write_lock_nothing(
    shared_lake: lw.Lake,
    table: str,
    mode: str,
    change: Callable[[lw.Transaction, str], None],
    passes: bool,
) -> None:
    with shared_lake.transaction(locks={table: mode}) as holder:
        tx = shared_lake.transaction(lock_timeout=0)
        change(tx, table)
        if passes:
            assert tx.commit().versions == {table: 2}
        else:
            with pytest.raises(Locked) as caught:
                tx.commit()
            assert caught.value.holders == [holder.transaction_id]
            assert not tx.is_open


def test_a_commit_that_was_kept_out_leaves_no_trace(shared_lake: lw.Lake, table: str) -> None:
    with shared_lake.transaction(locks={table: "write"}), unchanged(shared_lake):
        tx = shared_lake.transaction(lock_timeout=0.01)
        tx.append(table, {"id": [9]})
        with pytest.raises(Locked):
            tx.commit()


def test_a_commit_waits_until_the_lock_is_let_go(shared_lake: lw.Lake, table: str) -> None:
    with shared_lake.transaction(locks={table: "write"}) as holder:
        tx = shared_lake.transaction()
        tx.append(table, {"id": [2]})
        with meanwhile(tx.commit) as commit:
            until_waits(shared_lake, table, tx.transaction_id)
            holder.overwrite(table, {"id": [3]})
            holder.commit()
        assert commit.result().versions == {table: 3}
    assert ids(shared_lake, table) == [2, 3]
    assert shared_lake.locks() == []


def test_the_holder_of_a_write_lock_loses_to_nobody(shared_lake: lw.Lake, table: str) -> None:
    early = shared_lake.transaction()
    early.delete(table, where="id = 1")
    holder = shared_lake.transaction(locks={table: "write"})
    (number,) = holder.read(table)["id"].to_pylist()
    with meanwhile(early.commit) as commit:
        until_waits(shared_lake, table, early.transaction_id)
        holder.overwrite(table, {"id": [number + 1]})
        assert holder.commit().versions == {table: 2}
    assert isinstance(commit.exception(), Conflict)
    assert ids(shared_lake, table) == [2]


def test_a_lock_on_one_table_keeps_all_tables_of_a_transaction_back(
    shared_lake: lw.Lake, table: str, new_name: Callable[[], str]
) -> None:
    other = new_name()
    shared_lake.create(other, {"id": "int64"})
    with shared_lake.transaction(locks={table: "write"}):
        tx = shared_lake.transaction(lock_timeout=0)
        tx.append(other, {"id": [1]})
        tx.append(table, {"id": [1]})
        with pytest.raises(Locked):
            tx.commit()
    assert shared_lake.table(other).version == 0


def test_a_locked_table_that_is_only_read_keeps_nobody_back(
    shared_lake: lw.Lake, table: str, new_name: Callable[[], str]
) -> None:
    other = new_name()
    shared_lake.create(other, {"id": "int64"})
    with (
        shared_lake.transaction(locks={table: "write"}),
        shared_lake.transaction(isolation="serializable", lock_timeout=0) as tx,
    ):
        tx.read(table)
        tx.append(other, {"id": [1]})
    assert ids(shared_lake, other) == [1]


def test_a_locked_table_is_not_dropped(shared_lake: lw.Lake, table: str) -> None:
    with shared_lake.transaction(locks={table: "read"}) as holder:
        with pytest.raises(Locked) as caught:
            shared_lake.drop(table)
        assert caught.value.holders == [holder.transaction_id]
        assert shared_lake.table(table).version == 1
    shared_lake.drop(table)


def test_locks_bind_those_who_write_an_open_table_through_the_lake(
    shared_lake: lw.Lake, name: str
) -> None:
    shared_lake.create(name, {"id": "int64"}, guard=False)
    with shared_lake.transaction(locks={name: "write"}) as holder:
        tx = shared_lake.transaction()
        tx.append(name, {"id": [1]})
        with meanwhile(tx.commit) as commit:
            until_waits(shared_lake, name, tx.transaction_id)
            holder.append(name, {"id": [2]})
            holder.commit()
        assert commit.result().versions == {name: 2}
    assert is_free(shared_lake, name)


def test_a_lock_of_the_dead_is_passed_over_and_its_holder_cannot_commit(
    shared_lake: lw.Lake, table: str
) -> None:
    silent = shared_lake.transaction(locks={table: "write"})
    silent.append(table, {"id": [5]})
    run_out(shared_lake, silent.transaction_id)
    assert overwrite(shared_lake, table, {"id": [2]}) == 2
    with pytest.raises(TransactionClosed):
        silent.commit()
    assert ids(shared_lake, table) == [2]


def test_holders_of_read_locks_who_both_change_the_table_are_a_deadlock(
    shared_lake: lw.Lake, table: str
) -> None:
    """Each commit waits for the other's lock."""
    older = numbered(shared_lake, 1, table, locks={table: "read"})
    younger = numbered(shared_lake, 2, table, locks={table: "read"})
    older.delete(table, where="id = 1")
    younger.append(table, {"id": [2]})
    younger.read(table)
    with meanwhile(older.commit) as commit:
        until_waits(shared_lake, table, older.transaction_id)
        with pytest.raises(Deadlock):
            younger.commit()
    assert commit.result().versions == {table: 2}
    assert ids(shared_lake, table) == []


def test_a_commit_without_locks_never_gives_way_it_only_waits(
    shared_lake: lw.Lake, table: str, new_name: Callable[[], str]
) -> None:
    """It took one table on its way and waits for the other, whose holder wants the first one."""
    other = new_name()
    shared_lake.create(other, {"id": "int64"})
    locker = numbered(shared_lake, 1, table, locks={other: "write"})
    first = shared_lake.transaction(locks={table: "write"})
    plain = numbered(shared_lake, 2, table)
    plain.append(table, {"id": [2]})
    plain.append(other, {"id": [2]})
    with meanwhile(plain.commit) as commit:
        until_waits(shared_lake, table, plain.transaction_id)
        first.rollback()
        until_waits(shared_lake, other, plain.transaction_id)
        locker.lock(table)
        locker.append(table, {"id": [3]})
        locker.commit()
    assert commit.result().versions == {table: 3, other: 1}
    assert ids(shared_lake, table) == [1, 2, 3]
    assert shared_lake.locks() == []


def test_work_without_locks_goes_on_beside_locks_of_other_tables(
    shared_lake: lw.Lake, table: str, new_name: Callable[[], str]
) -> None:
    other = new_name()
    shared_lake.create(other, {"id": "int64"})
    with shared_lake.transaction(locks={other: "write"}):
        append(shared_lake, table, {"id": [2]})
        delete(shared_lake, table, "id = 1")
    assert ids(shared_lake, table) == [2]
