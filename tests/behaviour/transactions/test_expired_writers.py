"""A writer whose lease ran out cannot commit, even if its id was opened again meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import lakeward as lw
from lakeward.errors import Locked, TransactionClosed
from lakeward.log import transactions
from tests.support.inside import context_of
from tests.support.s3 import on_disk


def expire(lake: lw.Lake) -> None:
    """Mark all open transactions as expired, as when their processes stand still for a minute."""
    database = context_of(lake).database
    with database.write() as session:
        transactions.expire(session, database.clock_ms(session) + 3_600_000)


@pytest.fixture
def late(lake: lw.Lake, table_format: str) -> lw.Transaction:
    """A transaction with the chosen id `job-1` that has staged a row; then its lease ran out."""
    lake.create("t", {"id": "int64"}, format=table_format)
    tx = lake.transaction(transaction_id="job-1")
    tx.append("t", [{"id": 1}])
    expire(lake)
    return tx


def test_only_the_process_that_opened_the_id_again_commits(
    late: lw.Transaction, make_lake: Callable[..., lw.Lake]
) -> None:
    again = make_lake()
    retry = again.transaction(transaction_id="job-1")
    retry.append("t", [{"id": 1}])

    with pytest.raises(TransactionClosed, match="expired"):
        late.commit()

    assert dict(retry.commit().versions) == {"t": 1}
    assert again.table("t").to_arrow().to_pylist() == [{"id": 1}]
    assert again.doctor().findings == ()


def test_a_late_rollback_leaves_the_second_try_alone(
    late: lw.Transaction, lake: lw.Lake, make_lake: Callable[..., lw.Lake]
) -> None:
    retry = make_lake().transaction(transaction_id="job-1", locks={"t": "write"})
    retry.append("t", [{"id": 1}])

    late.rollback()

    with pytest.raises(Locked), lake.transaction(lock_timeout=0) as other:
        other.append("t", [{"id": 2}])
    assert dict(retry.commit().versions) == {"t": 1}
    assert lake.table("t").to_arrow().to_pylist() == [{"id": 1}]


def test_a_late_writer_gets_the_result_of_the_second_try(
    late: lw.Transaction, lake: lw.Lake, make_lake: Callable[..., lw.Lake]
) -> None:
    with make_lake().transaction(transaction_id="job-1") as retry:
        retry.append("t", [{"id": 1}])

    assert late.commit().versions == retry.commit().versions
    assert lake.table("t").to_arrow().to_pylist() == [{"id": 1}]


def test_the_lease_of_the_second_try_is_not_renewed_by_the_first(
    late: lw.Transaction, lake: lw.Lake, make_lake: Callable[..., lw.Lake]
) -> None:
    retry = make_lake().transaction(transaction_id="job-1")
    retry.append("t", [{"id": 1}])
    database = context_of(lake).database
    with database.read() as session:
        before = transactions.get(session, "job-1")

    transactions.extend(database, lake._keeper._transactions)

    with database.read() as session:
        assert transactions.get(session, "job-1") == before
    assert late.transaction_id == retry.transaction_id


@pytest.mark.formats("delta")
def test_an_open_table_gets_the_rows_once(lake: lw.Lake, make_lake: Callable[..., lw.Lake]) -> None:
    lake.create("o", {"id": "int64"}, guard=False)
    first = lake.transaction(transaction_id="job-2")
    first.append("o", [{"id": 1}])
    expire(lake)
    retry = make_lake().transaction(transaction_id="job-2")
    retry.append("o", [{"id": 1}])

    with pytest.raises(TransactionClosed, match="expired"):
        first.commit()

    assert dict(retry.commit().versions) == {"o": 1}
    assert lake.table("o").to_arrow().to_pylist() == [{"id": 1}]


@pytest.mark.formats("delta")
def test_two_processes_that_share_an_open_id_commit_once(
    lake: lw.Lake, make_lake: Callable[..., lw.Lake]
) -> None:
    lake.create("t", {"id": "int64"})
    both = [opened.transaction(transaction_id="job-3") for opened in (lake, make_lake())]
    for tx in both:
        tx.append("t", [{"id": 1}])

    versions = [dict(tx.commit().versions) for tx in both]

    assert versions == [{"t": 1}, {"t": 1}]
    assert lake.table("t").to_arrow().to_pylist() == [{"id": 1}]
    staged = [p.name for p in on_disk(lake.table("t").location).glob("*.parquet")]
    assert len(staged) == 1
