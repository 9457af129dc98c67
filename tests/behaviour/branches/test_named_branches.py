"""Named branches outlive their makers, and are published as one transaction or dropped."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.connection import Connection

import pytest
from deltalake import DeltaTable, write_deltalake

import lakeward as lw
from lakeward.errors import (
    AlreadyExists,
    Conflict,
    ConstraintViolation,
    InvalidInput,
    InvalidName,
    NotFound,
    TableNotFound,
)
from lakeward.log import branches
from lakeward.log.statement import Statement
from tests.behaviour.branches.working import everybody_reads, upsert
from tests.behaviour.lakes import append, delete, ids
from tests.support.inside import context_of
from tests.support.processes import kill_myself_at, start
from tests.support.s3 import on_disk
from tests.support.tables import numbered, table_of
from tests.support.target import LakeTarget

pytestmark = pytest.mark.formats("delta")

_TABLE = (
    table_of(id="int64", v="string")
    .options(constraints={"small": "id < 1000"})
    .rows(numbered(0, 1, 2))
)


def test_nothing_is_seen_before_a_branch_is_published_and_then_all_of_it(lake: lw.Lake) -> None:
    _TABLE.make(lake, "a")
    _TABLE.make(lake, "b.c")
    branch = lake.branch("audit", tables=["a", "b.c"])
    upsert(branch.table("a").location, numbered(0, 7, v="new"))
    write_deltalake(branch.table("b.c").location, numbered(8), mode="append")
    assert ids(lake, "a") == ids(lake, "b.c") == [0, 1, 2]
    assert sorted(branch.table("a").to_arrow(where="id > 1").column("id").to_pylist()) == [2, 7]

    result = branch.publish(message="looks good")

    assert result.versions == {"a": 2, "b.c": 2}
    assert everybody_reads(lake, "a")[0, "new"] == 1
    assert ids(lake, "b.c") == [0, 1, 2, 8]
    (first, *_) = lake.table("a").history()
    assert (first.transaction_id, first.message) == (result.transaction_id, "looks good")
    assert lake.branches() == []
    assert lake.doctor().findings == ()


def test_a_branch_is_found_again_after_a_restart(
    lake: lw.Lake, make_lake: Callable[..., lw.Lake]
) -> None:
    _TABLE.make(lake, "a")
    upsert(lake.branch("audit", tables=["a"]).table("a").location, numbered(0, v="new"))
    lake.close()

    again = make_lake()

    (found,) = again.branches()
    assert (found.name, [t.name for t in found.tables()]) == ("audit", ["a"])
    assert found.table("a").base_version == 1
    assert found.table("a").version == 1
    found.publish()
    assert everybody_reads(again, "a")[0, "new"] == 1


def test_a_branch_that_is_dropped_leaves_no_trace(lake: lw.Lake) -> None:
    _TABLE.make(lake, "a")
    before = sorted(on_disk(lake.table("a").location).rglob("*"))
    branch = lake.branch("audit", tables="a")
    upsert(branch.table("a").location, numbered(0, v="new"))

    branch.drop()

    assert sorted(on_disk(lake.table("a").location).rglob("*")) == before
    assert lake.branches() == []
    with pytest.raises(NotFound, match="no branch 'audit'"):
        lake.branch("audit")
    assert [e.action for e in lake.table("a").audit()][-2:] == ["CREATE BRANCH", "DROP BRANCH"]
    lake.branch("audit", tables=["a"]).drop()


def test_the_difference_is_what_publishing_would_do(lake: lw.Lake) -> None:
    _TABLE.make(lake, "a")
    _TABLE.make(lake, "b")
    branch = lake.branch("audit", tables=["a", "b"])
    upsert(branch.table("a").location, numbered(0, 7, v="new"))
    append(lake, "b", numbered(3))

    first, second = branch.diff()

    assert (first.table, first.base_version, first.version) == ("a", 1, 1)
    assert (first.rows_added - first.rows_removed, first.files_removed) == (1, 1)
    assert first.operations == ("MERGE",)
    assert first.conflict is None
    assert (second.files_added, second.files_removed, second.version) == (0, 0, 2)
    delete(lake, "a", "id = 0")
    (first, _) = branch.diff()
    assert first.conflict is not None
    assert "removed or rewrote" in first.conflict


def test_a_branch_that_lost_stays_and_is_published_later(lake: lw.Lake) -> None:
    _TABLE.make(lake, "a")
    branch = lake.branch("audit", tables=["a"])
    # An engine that does not look at what the table demands.
    upsert(branch.table("a").location, numbered(5000))
    log = sorted((on_disk(branch.table("a").location) / "_delta_log").glob("*.json"))
    with pytest.raises(ConstraintViolation, match="small"):
        branch.publish()
    assert ids(lake, "a") == [0, 1, 2]
    log[-1].unlink()
    write_deltalake(branch.table("a").location, numbered(5), mode="append")

    lake.branch("audit").publish()

    assert ids(lake, "a") == [0, 1, 2, 5]


def test_others_who_changed_the_same_rows_keep_a_branch_out(lake: lw.Lake) -> None:
    _TABLE.make(lake, "a")
    branch = lake.branch("audit", tables=["a"])
    upsert(branch.table("a").location, numbered(0, v="new"))
    delete(lake, "a", "id = 0")

    with pytest.raises(Conflict):
        branch.publish()

    assert ids(lake, "a") == [1, 2]
    assert [b.name for b in lake.branches()] == ["audit"]
    assert on_disk(branch.table("a").location).exists()


def test_appends_of_others_do_not_keep_a_branch_of_appends_out(lake: lw.Lake) -> None:
    _TABLE.make(lake, "a")
    branch = lake.branch("audit", tables=["a"])
    write_deltalake(branch.table("a").location, numbered(7), mode="append")
    delete(lake, "a", "id = 0")

    branch.publish()

    assert ids(lake, "a") == [1, 2, 7]


def test_publishing_twice_commits_once(lake: lw.Lake) -> None:
    _TABLE.make(lake, "a")
    branch = lake.branch("audit", tables=["a"])
    write_deltalake(branch.table("a").location, numbered(7), mode="append")

    assert branch.publish() == branch.publish()

    assert ids(lake, "a") == [0, 1, 2, 7]


def test_a_branch_without_work_commits_nothing(lake: lw.Lake) -> None:
    _TABLE.make(lake, "a")

    assert lake.branch("audit", tables=["a"]).publish().versions == {}

    assert lake.table("a").version == 1
    assert lake.branches() == []


def _publish_and_die(_: Connection, target: LakeTarget, step: str) -> None:
    with target.open() as lake:
        kill_myself_at(step, 1)
        lake.branch("audit").publish()


@pytest.mark.parametrize("step", ["branch.netted", "ratify.inserted", "ratify.committed"])
def test_whoever_dies_while_publishing_publishes_all_or_nothing(
    lake: lw.Lake, make_lake: Callable[..., lw.Lake], lake_target: LakeTarget, step: str
) -> None:
    _TABLE.make(lake, "a")
    _TABLE.make(lake, "b")
    branch = lake.branch("audit", tables=["a", "b"])
    for table in branch.tables():
        upsert(table.location, numbered(0, 7, v="new"))
    worker = start(_publish_and_die, lake_target, step)
    worker.finish()
    assert worker.killed
    with context_of(lake).database.write() as session:
        session.run(Statement("UPDATE lakeward_transaction SET lease_until_ms = 0"))

    again = make_lake()

    if step == "ratify.committed":
        assert again.branches() == []
    else:
        assert ids(again, "a") == ids(again, "b") == [0, 1, 2]
        again.branch("audit").publish()
    for name in ("a", "b"):
        assert sorted(row[0] for row in everybody_reads(again, name).elements()) == [0, 1, 2, 7]
        assert again.table(name).version == 2
    assert [f.code for f in again.doctor().findings] == []


def test_the_version_that_a_branch_stands_on_is_held(lake: lw.Lake) -> None:
    _TABLE.make(lake, "a")
    branch = lake.branch("audit", tables=["a"])
    delete(lake, "a", "id = 0")
    with context_of(lake).database.read() as session:
        table_id = branches.named(session)[0].table_id
        assert branches.held_versions(session, table_id) == {1}
    assert sorted(branch.table("a").to_arrow().column("id").to_pylist()) == [0, 1, 2]
    assert [f.code for f in lake.doctor().findings] == []

    branch.drop()

    with context_of(lake).database.read() as session:
        assert branches.held_versions(session, table_id) == set()


def test_a_branch_whose_maker_died_is_finished_by_the_next(lake: lw.Lake) -> None:
    _TABLE.make(lake, "a")
    branch = lake.branch("audit", tables=["a"])
    log = on_disk(branch.table("a").location) / "_delta_log"
    for path in log.iterdir():
        path.unlink()

    found = lake.branch("audit")

    assert DeltaTable(found.table("a").location).version() == 0


def test_what_makes_no_sense_is_refused_before_anything_is_made(lake: lw.Lake) -> None:
    _TABLE.make(lake, "a")
    for name in ("a/b", "x" * 65, "-x", "ü"):
        with pytest.raises(InvalidName):
            lake.branch(name, tables=["a"])
    with pytest.raises(InvalidInput, match="no tables"):
        lake.branch("audit", tables=[])
    with pytest.raises(TableNotFound):
        lake.branch("audit", tables=["a", "nope"])
    assert lake.branches() == []
    branch = lake.branch("audit", tables=["a"])
    with pytest.raises(AlreadyExists):
        lake.branch("audit", tables=["a"])
    with pytest.raises(TableNotFound, match="has no table b"):
        branch.table("b")


def test_the_rows_of_a_changed_branch_are_compared(lake: lw.Lake) -> None:
    _TABLE.make(lake, "a")
    one, other = (lake.branch(n, tables=["a"]) for n in ("one", "other"))
    upsert(one.table("a").location, numbered(0, 7, v="new"))
    for compared in (lake.diff(one, key="id"), lake.diff(other, one, key="id")):
        assert isinstance(compared, dict)
        found = compared["a"]
        assert (found.inserted, found.deleted, found.changed) == (1, 0, 1)
        assert found.columns == {"v": 1}
