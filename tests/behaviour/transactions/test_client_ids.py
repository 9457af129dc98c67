"""Transactions with ids that the client chose: a replay commits once."""

from __future__ import annotations

import pytest

import lakeward as lw
from lakeward.errors import TransactionNotFound
from tests.behaviour.lakes import data_files, ids, unchanged


@pytest.fixture
def table(shared_lake: lw.Lake, name: str) -> lw.Table:
    return shared_lake.create(name, {"id": "int64"})


def _key(table: lw.Table) -> str:
    return f"job-{table.uuid}"


def test_the_outcome_is_found_by_the_id(shared_lake: lw.Lake, table: lw.Table) -> None:
    with shared_lake.transaction(transaction_id=_key(table)) as tx:
        tx.append(table.name, {"id": [1]})

    assert tx.commit().transaction_id == _key(table)
    outcome = shared_lake.outcome(_key(table))
    assert outcome.committed
    assert outcome.versions == {table.name: 1}
    assert table.history(limit=1)[0].transaction_id == _key(table)


def test_an_id_that_was_committed_commits_no_more(shared_lake: lw.Lake, table: lw.Table) -> None:
    with shared_lake.transaction(transaction_id=_key(table)) as tx:
        tx.append(table.name, {"id": [1]})
    first = tx.commit()

    with unchanged(shared_lake), shared_lake.transaction(transaction_id=_key(table)) as again:
        again.append(table.name, {"id": [1]})

    assert again.commit().versions == first.versions
    assert again.commit().timestamp == first.timestamp
    assert ids(shared_lake, table.name) == [1]


def test_two_at_once_with_one_id_commit_once(shared_lake: lw.Lake, table: lw.Table) -> None:
    first = shared_lake.transaction(transaction_id=_key(table))
    second = shared_lake.transaction(transaction_id=_key(table))
    first.append(table.name, {"id": [1]})
    second.append(table.name, {"id": [1]})

    results = [second.commit(), first.commit()]

    assert results[0].versions == results[1].versions == {table.name: 1}
    assert ids(shared_lake, table.name) == [1]
    assert data_files(shared_lake, table.name) == {f.path for f in table.files()}


def test_an_id_whose_holder_died_can_be_tried_again(shared_lake: lw.Lake, table: lw.Table) -> None:
    abandoned = shared_lake.transaction(transaction_id=_key(table))
    abandoned.append(table.name, {"id": [1]})
    staged = data_files(shared_lake, table.name)

    with shared_lake.transaction(transaction_id=_key(table)) as tx:
        tx.append(table.name, {"id": [1]})

    assert ids(shared_lake, table.name) == [1]
    assert not staged & {f.path for f in table.files()}
    assert shared_lake.outcome(_key(table)).committed


def test_an_id_that_was_rolled_back_can_be_used_again(
    shared_lake: lw.Lake, table: lw.Table
) -> None:
    tx = shared_lake.transaction(transaction_id=_key(table))
    tx.append(table.name, {"id": [1]})
    tx.rollback()
    assert shared_lake.outcome(_key(table)).state.value == "rolled_back"

    with shared_lake.transaction(transaction_id=_key(table)) as again:
        again.append(table.name, {"id": [2]})
    assert shared_lake.outcome(_key(table)).committed
    assert table.to_arrow().to_pylist() == [{"id": 2}]


def test_an_unknown_id_is_not_found(shared_lake: lw.Lake) -> None:
    with pytest.raises(TransactionNotFound) as caught:
        shared_lake.outcome("nobody-ever-used-this")
    assert caught.value.transaction_id == "nobody-ever-used-this"


def test_an_open_transaction_says_so(shared_lake: lw.Lake, table: lw.Table) -> None:
    tx = shared_lake.transaction(transaction_id=_key(table))
    tx.append(table.name, {"id": [1]})

    assert shared_lake.outcome(_key(table)).state.value == "open"
    assert tx.outcome().state.value == "open"
    assert _key(table) in [r.transaction_id for r in shared_lake.transactions(limit=5)]
    tx.rollback()
