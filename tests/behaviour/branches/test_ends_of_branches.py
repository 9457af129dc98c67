"""A named branch ends once: it is published or dropped, whatever other processes do meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import pytest
from deltalake import write_deltalake

import lakeward as lw
from lakeward.errors import Conflict, NotFound, TransactionClosed
from lakeward.log import catalog, transactions
from lakeward.log.statement import Statement
from lakeward.model import steps
from lakeward.model.names import TableName
from tests.behaviour.lakes import ids
from tests.support.iceberg import stranger_catalog
from tests.support.inside import context_of
from tests.support.processes import kill_myself_at, start
from tests.support.tables import numbered, table_of
from tests.support.target import LakeTarget

_TABLE = table_of(id="int64", v="string").rows(numbered(0, 1, 2))


def _branch(lake: lw.Lake, **options: Any) -> lw.Branch:
    """A branch of a table to which another engine has appended a row."""
    _TABLE.make(lake, "a", **options)
    branch = lake.branch("audit", tables=["a"])
    table = branch.table("a")
    if table.catalog is None:
        write_deltalake(table.location, numbered(7), mode="append")
    else:
        found = stranger_catalog(lake, table.catalog)
        found.load_table(catalog.identifier(TableName.parse("a"))).append(numbered(7))
    return branch


@contextmanager
def _once_at(step: str, action: Callable[[], Any]) -> Generator[None]:
    """Run an action when a step is reached for the first time."""
    done = list[str]()

    def look(reached: str) -> None:
        if reached == step and not done:
            done.append(reached)
            action()

    steps.observe(look)
    try:
        yield
    finally:
        steps.observe(None)
    assert done == [step]


def _check_published(lake: lw.Lake) -> None:
    assert ids(lake, "a") == [0, 1, 2, 7]
    assert lake.table("a").version == 2
    assert lake.branches() == []
    assert lake.doctor().findings == ()


def test_a_published_branch_is_not_dropped(lake: lw.Lake) -> None:
    branch = _branch(lake)
    other = lake.branch("audit")
    branch.publish()

    for handle in (branch, other):
        with pytest.raises(NotFound, match="published"):
            handle.drop()

    _check_published(lake)
    assert "DROP BRANCH" not in [e.action for e in lake.table("a").audit()]


def test_a_dropped_branch_is_not_published(lake: lw.Lake) -> None:
    branch = _branch(lake)
    lake.branch("audit").drop()

    with pytest.raises(NotFound, match="dropped"):
        branch.publish()
    with pytest.raises(NotFound, match="dropped"):
        branch.drop()

    assert ids(lake, "a") == [0, 1, 2]
    again = lake.branch("audit", tables=["a"])
    with pytest.raises(NotFound, match="dropped"):
        branch.drop()
    assert [b.name for b in lake.branches()] == ["audit"]
    assert again.diff()[0].conflict is None


def test_a_branch_is_not_dropped_while_another_process_publishes_it(
    lake: lw.Lake, make_lake: Callable[..., lw.Lake]
) -> None:
    branch, other = _branch(lake), make_lake().branch("audit")

    def drop() -> None:
        with pytest.raises(Conflict, match="publishes"):
            other.drop()

    with _once_at("branch.netted", drop):
        assert branch.publish().versions == {"a": 2}

    _check_published(lake)


def test_a_publisher_whose_lease_ran_out_cannot_publish_a_dropped_branch(
    lake: lw.Lake, make_lake: Callable[..., lw.Lake]
) -> None:
    branch, other = _branch(lake), make_lake().branch("audit")

    def drop() -> None:
        with context_of(lake).database.write() as session:
            session.run(Statement("UPDATE lakeward_transaction SET lease_until_ms = 0"))
        other.drop()

    with (
        _once_at("branch.netted", drop),
        pytest.raises(TransactionClosed, match="rolled back"),
    ):
        branch.publish()

    assert ids(lake, "a") == [0, 1, 2]
    assert lake.branches() == []
    assert lake.doctor().findings == ()


@pytest.mark.parametrize("step", ["transaction.opened", "branch.netted"])
def test_two_processes_that_publish_a_branch_have_the_same_result(
    lake: lw.Lake,
    make_lake: Callable[..., lw.Lake],
    step: str,
) -> None:
    branch, other = _branch(lake), make_lake().branch("audit")
    results = list[Any]()

    with _once_at(step, lambda: results.append(other.publish())):
        results.append(branch.publish())

    assert [r.versions for r in results] == [{"a": 2}, {"a": 2}]
    _check_published(lake)


def _publish_and_die(_: Connection, target: LakeTarget) -> None:
    with target.open() as lake:
        kill_myself_at("publish.linked", 1)
        lake.branch("audit").publish()


@pytest.mark.formats("delta")
@pytest.mark.local
def test_a_branch_whose_commit_is_published_and_not_recorded_is_not_dropped(
    lake: lw.Lake, lake_target: LakeTarget
) -> None:
    branch = _branch(lake, guard=False)
    worker = start(_publish_and_die, lake_target)
    worker.finish()
    assert worker.killed
    with context_of(lake).database.read() as session:
        assert len(transactions.still_open(session)) == 1

    with pytest.raises(NotFound, match="published"):
        branch.drop()

    _check_published(lake)
