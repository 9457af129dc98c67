"""Locks taken at the start, what they promise to their holder, and what a lake tells of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import lakeward as lw
from lakeward.errors import Conflict, InvalidInput, InvalidName, Locked, TransactionClosed
from lakeward.log import transactions
from lakeward.log.statement import Statement
from lakeward.model.locks import LockMode
from tests.behaviour.lakes import append, ids, overwrite, unchanged
from tests.behaviour.locks.waiting import is_free, meanwhile, refused, until_waits
from tests.support.inside import context_of
from tests.support.leases import run_out
from tests.support.s3 import on_disk


@pytest.fixture
def tables(shared_lake: lw.Lake, new_name: Callable[[], str]) -> tuple[str, str]:
    names = (new_name(), new_name())
    for name in names:
        shared_lake.create(name, {"id": "int64"})
    return names


def test_locks_are_taken_at_the_start(shared_lake: lw.Lake, tables: tuple[str, str]) -> None:
    first, second = tables
    with shared_lake.transaction(locks={second: "write", first: "read"}):
        held = [(lock.table, lock.mode) for lock in shared_lake.locks()]
        assert held == [(first, LockMode.READ), (second, LockMode.WRITE)]
        assert is_free(shared_lake, first, "read")
        assert not is_free(shared_lake, second, "read")
    assert shared_lake.locks() == []


def test_locks_are_taken_by_the_order_of_names(
    shared_lake: lw.Lake, tables: tuple[str, str]
) -> None:
    """Whoever lists them otherwise waits for the first one and holds nothing."""
    first, second = tables
    holder = shared_lake.transaction(locks={first: "write"})
    with meanwhile(
        lambda: shared_lake.transaction(locks={second: "write", first: "write"})
    ) as late:
        until_waits(shared_lake, first)
        assert is_free(shared_lake, second)
        holder.rollback()
    late.result().rollback()


def test_when_one_lock_is_not_to_be_had_none_is_kept(
    shared_lake: lw.Lake, tables: tuple[str, str]
) -> None:
    first, second = tables
    with shared_lake.transaction(locks={second: "write"}):
        with pytest.raises(Locked) as caught:
            shared_lake.transaction(locks={first: "write", second: "read"}, lock_timeout=0)
        assert caught.value.table == second
        assert is_free(shared_lake, first)


@pytest.mark.parametrize(
    ("locks", "error"),
    [
        ({"a": "write", "b": "exclusive"}, InvalidInput),
        ({"a": "write", "b..c": "read"}, InvalidName),
        (["a"], InvalidInput),
        ("a", InvalidInput),
    ],
)
def test_senseless_locks_are_refused_before_one_is_taken(
    shared_lake: lw.Lake, locks: object, error: type[Exception]
) -> None:
    with unchanged(shared_lake), pytest.raises(error):
        shared_lake.transaction(locks=locks)  # type: ignore[arg-type]


def test_a_senseless_patience_is_refused(shared_lake: lw.Lake) -> None:
    with pytest.raises(InvalidInput):
        shared_lake.transaction(lock_timeout=-1)


def test_run_takes_the_locks_of_every_attempt(
    shared_lake: lw.Lake, tables: tuple[str, str]
) -> None:
    first, second = tables
    attempts = []

    def work(tx: lw.Transaction) -> None:
        assert not is_free(shared_lake, first)
        attempts.append(tx.read(second).num_rows)
        if len(attempts) == 1:
            overwrite(shared_lake, second, {"id": [1]})
        tx.overwrite(second, {"id": [2]})
        tx.append(first, {"id": [1]})

    result = shared_lake.run(work, locks={first: "write"})
    assert result.attempts == 2
    assert is_free(shared_lake, first)


def test_what_was_read_before_the_lock_must_still_be_true(
    shared_lake: lw.Lake, tables: tuple[str, str]
) -> None:
    """Else the holder would lose a conflict at its commit, which a lock is there to prevent."""
    table, _ = tables
    append(shared_lake, table, {"id": [1]})
    tx = shared_lake.transaction()
    assert tx.read(table).num_rows == 1
    append(shared_lake, table, {"id": [2]})
    with pytest.raises(Conflict, match="before it had the lock") as caught:
        tx.lock(table)
    assert caught.value.table == table
    assert not tx.is_open
    assert is_free(shared_lake, table)


def test_another_table_of_the_same_cut_must_be_as_it_was(
    shared_lake: lw.Lake, tables: tuple[str, str]
) -> None:
    first, second = tables
    tx = shared_lake.transaction()
    tx.read(first)
    append(shared_lake, second, {"id": [1]})
    with pytest.raises(Conflict):
        tx.lock(second)


def test_a_lock_after_a_look_is_fine_while_nothing_changed(
    shared_lake: lw.Lake, tables: tuple[str, str]
) -> None:
    table, _ = tables
    with shared_lake.transaction() as tx:
        tx.read(table)
        tx.lock(table)
        tx.overwrite(table, {"id": [1]})
    assert ids(shared_lake, table) == [1]


def test_a_lock_after_a_blind_append_begins_where_the_table_is(
    shared_lake: lw.Lake, tables: tuple[str, str]
) -> None:
    table, _ = tables
    with shared_lake.transaction() as tx:
        tx.append(table, {"id": [1]})
        append(shared_lake, table, {"id": [2]})
        tx.lock(table)
        assert sorted(tx.read(table)["id"].to_pylist()) == [1, 2]
        tx.overwrite(table, {"id": [3]})
    assert ids(shared_lake, table) == [3]


def test_an_id_that_was_committed_before_locks_nothing(
    shared_lake: lw.Lake, tables: tuple[str, str]
) -> None:
    table, _ = tables
    for _ in range(2):
        with shared_lake.transaction(transaction_id=f"once-{id(tables)}") as tx:
            tx.lock(table)
            tx.append(table, {"id": [1]})
        assert is_free(shared_lake, table)
    assert ids(shared_lake, table) == [1]


def test_a_lock_whose_lease_ran_out_is_taken_and_its_holder_cannot_commit(
    shared_lake: lw.Lake, tables: tuple[str, str]
) -> None:
    table, _ = tables
    silent = shared_lake.transaction(locks={table: "write"})
    silent.append(table, {"id": [1]})
    assert not is_free(shared_lake, table)
    run_out(shared_lake, silent.transaction_id)
    assert shared_lake.locks() == []
    with shared_lake.transaction(locks={table: "write"}, lock_timeout=0) as tx:
        tx.append(table, {"id": [2]})
        with pytest.raises(TransactionClosed, match="lease"):
            silent.commit()
    assert ids(shared_lake, table) == [2]


def test_who_waits_gets_the_lock_when_the_lease_runs_out(
    shared_lake: lw.Lake, tables: tuple[str, str]
) -> None:
    table, _ = tables
    silent, tx = shared_lake.transaction(locks={table: "read"}), shared_lake.transaction()
    with meanwhile(lambda: tx.lock(table)) as waiting:
        until_waits(shared_lake, table, tx.transaction_id)
        run_out(shared_lake, silent.transaction_id)
    assert waiting.result() is None
    tx.rollback()


def test_who_waits_and_loses_the_lease_is_told(
    shared_lake: lw.Lake, tables: tuple[str, str]
) -> None:
    table, _ = tables
    holder, tx = shared_lake.transaction(locks={table: "write"}), shared_lake.transaction()
    with meanwhile(lambda: tx.lock(table)) as waiting:
        until_waits(shared_lake, table, tx.transaction_id)
        run_out(shared_lake, tx.transaction_id)
        assert is_free(shared_lake, table) is False
        late = shared_lake.transaction()
        assert refused(late, table).holders == [holder.transaction_id]
        late.rollback()
    assert isinstance(waiting.exception(), TransactionClosed)
    holder.rollback()


def test_an_id_that_is_opened_again_has_lost_its_locks(
    shared_lake: lw.Lake, tables: tuple[str, str]
) -> None:
    table, other = tables
    name = f"again-{id(tables)}"
    shared_lake.transaction(transaction_id=name, locks={table: "write"})
    run_out(shared_lake, name)
    with context_of(shared_lake).database.write() as session:
        transactions.expire(session, context_of(shared_lake).database.clock_ms(session))
    with shared_lake.transaction(transaction_id=name) as tx:
        tx.append(other, {"id": [1]})
        assert is_free(shared_lake, table)


def test_an_export_leaves_locks_behind(
    shared_lake: lw.Lake, tables: tuple[str, str], tmp_path: Path
) -> None:
    table, _ = tables
    with shared_lake.transaction(locks={table: "write"}):
        copy = shared_lake.export_store(tmp_path / "store.zip")
        assert not [name for name in copy.rows if "lock" in name]
        unowned = shutil.ignore_patterns("lakeward.db*", "_lakeward", ".lakeward")
        shutil.copytree(on_disk(shared_lake.warehouse), tmp_path / "files", ignore=unowned)
        with lw.open(tmp_path / "copy", warehouse=tmp_path / "files", repair=False) as copied:
            copied.import_store(tmp_path / "store.zip")
            assert copied.locks() == []
            assert is_free(copied, table)
        assert not is_free(shared_lake, table)


def test_rows_that_ended_transactions_left_are_swept_away(
    make_lake: Callable[[], lw.Lake],
) -> None:
    lake = make_lake()
    for name in ("t", "u"):
        lake.create(name, {"id": "int64"})
    silent = lake.transaction(locks={"t": "write"})
    alive = lake.transaction(locks={"u": "write"})
    run_out(lake, silent.transaction_id)
    make_lake()
    with context_of(lake).database.read() as session:
        left = session.rows(Statement("SELECT transaction_id FROM lakeward_lock"))
    assert [row[0] for row in left] == [alive.transaction_id]
    alive.rollback()


def test_a_lake_tells_who_holds_what_and_who_waits(
    shared_lake: lw.Lake, tables: tuple[str, str]
) -> None:
    first, second = tables
    reader = shared_lake.transaction(locks={first: "read"})
    writer = shared_lake.transaction(locks={second: "write"})
    with meanwhile(lambda: writer.lock(first)) as waiting:
        until_waits(shared_lake, first, writer.transaction_id)
        (one, two) = shared_lake.locks()
        assert (one.table, one.mode) == (first, LockMode.READ)
        assert one.transaction_id == reader.transaction_id
        assert one.actor == context_of(shared_lake).actor
        assert one.process.endswith(f":{os.getpid()}")
        assert 0 < one.lease_left.total_seconds() <= 60
        (wait,) = one.waiters
        assert (wait.transaction_id, wait.mode) == (writer.transaction_id, LockMode.WRITE)
        assert wait.since >= one.since
        assert (two.table, two.mode, two.waiters) == (second, LockMode.WRITE, ())
        reader.rollback()
    assert waiting.result() is None
    writer.rollback()
