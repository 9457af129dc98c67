"""A commit of ours whose database transaction was lost is no foreign one, on any open table."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import lakeward as lw
from lakeward.errors import ForeignCommit
from lakeward.log import transactions
from lakeward.model import steps
from tests.support.inside import context_of


class Crash(BaseException):
    """Stands for a process that dies here."""


@pytest.fixture(params=["adopt", "refuse"])
def table(request: pytest.FixtureRequest, lake: lw.Lake) -> lw.Table:
    location = f"{lake.warehouse}/elsewhere"
    write_deltalake(location, pa.table({"id": [0]}))
    return lake.adopt("t", location, guard=False, drift=request.param)


def test_a_commit_that_lost_its_database_transaction_is_found(
    lake: lw.Lake, table: lw.Table, make_lake: Callable[..., lw.Lake]
) -> None:
    with pytest.raises(Crash):
        append_and_crash(lake, "first")

    again = make_lake()
    assert sorted(again.table("t").to_arrow()["id"].to_pylist()) == [0, 1]
    assert again.outcome("first").versions == {"t": 1}
    with again.transaction() as tx:
        tx.append("t", [{"id": 2}])
    assert again.table("t").version == 2


def test_trying_it_again_by_its_id_commits_once(
    lake: lw.Lake, table: lw.Table, make_lake: Callable[..., lw.Lake]
) -> None:
    with pytest.raises(Crash):
        append_and_crash(lake, "first")

    with make_lake().transaction(transaction_id="first") as tx:
        tx.append("t", [{"id": 1}])
    assert dict(tx.commit().versions) == {"t": 1}
    assert sorted(table.to_arrow()["id"].to_pylist()) == [0, 1]


def test_a_commit_whose_writer_was_taken_for_dead_is_still_a_commit(
    lake: lw.Lake, table: lw.Table
) -> None:
    with pytest.raises(Crash):
        append_and_crash(lake, "first")
    with context_of(lake).database.write() as session:
        transactions.expire(session, context_of(lake).database.clock_ms(session) + 3_600_000)

    assert lake.outcome("first").state.value == "ratified"
    assert lake.outcome("first").versions == {"t": 1}


@pytest.mark.parametrize("table", ["refuse"], indirect=True)
def test_a_foreign_commit_is_refused_and_the_transaction_rolled_back(
    lake: lw.Lake, table: lw.Table
) -> None:
    tx = lake.transaction(transaction_id="late")
    tx.append("t", [{"id": 1}])
    write_deltalake(table.location, pa.table({"id": [9]}), mode="append")

    with pytest.raises(ForeignCommit):
        tx.commit()
    assert lake.outcome("late").state.value == "rolled_back"
    assert (table.version, table.to_arrow()["id"].to_pylist()) == (0, [0])


def append_and_crash(lake: lw.Lake, transaction_id: str) -> None:
    """Put the published file, and lose the database transaction and the process."""
    tx = lake.transaction(transaction_id=transaction_id)
    tx.append("t", [{"id": 1}])

    def crash(step: str) -> None:
        if step == "publish.linked":
            raise Crash

    tx.rollback = lambda: None  # type: ignore[method-assign]  # the dead roll nothing back
    steps.observe(crash)
    try:
        tx.commit()
    finally:
        steps.observe(None)
