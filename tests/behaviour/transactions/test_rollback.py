"""Transactions that come to nothing leave nothing: no version, no file, no open registration."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import LakewardError, SchemaMismatch, TransactionClosed
from tests.behaviour.lakes import append, ids, unchanged


class Stop(Exception):
    """Something of the user's own goes wrong."""


@pytest.fixture
def table(shared_lake: lw.Lake, name: str) -> lw.Table:
    table = shared_lake.create(name, {"id": "int64", "p": "string"}, partition_by=["p"])
    append(shared_lake, name, {"id": [1, 2, 3], "p": ["a", "b", None]})
    return table


def _fail(lake: lw.Lake, name: str) -> None:
    with lake.transaction() as tx:
        _work(tx, name)
        raise Stop


def _swallow(lake: lw.Lake, name: str) -> None:
    with lake.transaction() as tx:
        tx.append(name, {"id": [9], "p": ["a"]})
        with pytest.raises(SchemaMismatch):
            tx.append(name, {"nope": [1]})


def _work(tx: lw.Transaction, name: str) -> None:
    tx.append(name, {"id": [4, 5], "p": ["a", "new"]})
    tx.overwrite(name, {"id": [6], "p": ["b"]}, where="p = 'b'")
    tx.delete(name, where="id = 4")
    tx.record(name, "app", 7)


def test_an_error_in_the_block_undoes_everything(shared_lake: lw.Lake, table: lw.Table) -> None:
    with unchanged(shared_lake), pytest.raises(Stop):
        _fail(shared_lake, table.name)


def test_rollback_undoes_everything(shared_lake: lw.Lake, table: lw.Table) -> None:
    with unchanged(shared_lake):
        tx = shared_lake.transaction()
        _work(tx, table.name)
        tx.rollback()


def test_rollback_in_the_block_is_not_undone_by_its_end(
    shared_lake: lw.Lake, table: lw.Table
) -> None:
    with unchanged(shared_lake), shared_lake.transaction() as tx:
        _work(tx, table.name)
        tx.rollback()


def test_rollback_may_be_called_again(shared_lake: lw.Lake, table: lw.Table) -> None:
    with unchanged(shared_lake):
        tx = shared_lake.transaction()
        _work(tx, table.name)
        tx.rollback()
        tx.rollback()


def test_rollback_after_commit_changes_nothing(shared_lake: lw.Lake, table: lw.Table) -> None:
    with shared_lake.transaction() as tx:
        _work(tx, table.name)
    with unchanged(shared_lake):
        tx.rollback()

    assert ids(shared_lake, table.name) == [1, 3, 5, 6]


def test_a_failed_operation_ends_the_transaction(shared_lake: lw.Lake, table: lw.Table) -> None:
    with unchanged(shared_lake):
        tx = shared_lake.transaction()
        _work(tx, table.name)
        with pytest.raises(SchemaMismatch):
            tx.append(table.name, {"nope": [1]})
        with pytest.raises(TransactionClosed):
            tx.append(table.name, {"id": [1], "p": ["a"]})
        with pytest.raises(TransactionClosed):
            tx.commit()


def test_a_failure_that_was_swallowed_is_told_at_the_end_of_the_block(
    shared_lake: lw.Lake, table: lw.Table
) -> None:
    """Otherwise a block that ends as if all were well would have committed nothing."""
    with unchanged(shared_lake), pytest.raises(TransactionClosed) as caught:
        _swallow(shared_lake, table.name)
    assert isinstance(caught.value.__cause__, SchemaMismatch)


@pytest.mark.parametrize(
    "use",
    [
        lambda tx, name: tx.append(name, {"id": [1], "p": ["a"]}),
        lambda tx, name: tx.overwrite(name, {"id": [1], "p": ["a"]}),
        lambda tx, name: tx.delete(name, where="id = 1"),
        lambda tx, name: tx.add_files(name, ["x.parquet"]),
        lambda tx, name: tx.remove_files(name, ["x.parquet"]),
        lambda tx, name: tx.record(name, "app", 1),
        lambda tx, name: tx.read(name),
        lambda tx, name: tx.commit(),
    ],
    ids=["append", "overwrite", "delete", "add", "remove", "record", "read", "commit"],
)
def test_a_closed_transaction_does_nothing_more(
    shared_lake: lw.Lake, table: lw.Table, use: object
) -> None:
    assert callable(use)
    tx = shared_lake.transaction()
    tx.append(table.name, {"id": [4], "p": ["a"]})
    tx.rollback()

    with unchanged(shared_lake), pytest.raises(TransactionClosed) as caught:
        use(tx, table.name)
    assert caught.value.transaction_id == tx.transaction_id


def test_a_committed_transaction_takes_no_more(shared_lake: lw.Lake, table: lw.Table) -> None:
    with shared_lake.transaction() as tx:
        tx.append(table.name, {"id": [4], "p": ["a"]})

    with unchanged(shared_lake), pytest.raises(TransactionClosed):
        tx.append(table.name, {"id": [5], "p": ["a"]})


def test_a_stream_that_breaks_in_the_middle_leaves_nothing(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, {"id": "int64"}, policy={"target_file_size": "1kb"})

    def broken() -> Iterator[pa.Table]:
        for start in range(0, 1000, 100):
            yield pa.table({"id": list(range(start, start + 100))})
        raise Stop

    with unchanged(shared_lake):
        tx = shared_lake.transaction()
        with pytest.raises(Stop):
            tx.append(name, broken())


def test_what_was_rolled_back_is_known_as_such(shared_lake: lw.Lake, table: lw.Table) -> None:
    tx = shared_lake.transaction()
    tx.append(table.name, {"id": [4], "p": ["a"]})
    tx.rollback()

    outcome = shared_lake.outcome(tx.transaction_id)
    assert not outcome.committed
    assert outcome.state.value == "rolled_back"
    assert outcome.versions == {}


def test_errors_know_what_they_are_about(shared_lake: lw.Lake, table: lw.Table) -> None:
    with pytest.raises(LakewardError) as caught, shared_lake.transaction() as tx:
        tx.append(table.name, {"id": ["x"], "p": ["a"]})

    assert caught.value.column == "id"
