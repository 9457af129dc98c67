"""What is left of branches whose transactions are over goes, and nothing else does."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import lakeward as lw
from lakeward.log import branches
from lakeward.log.statement import Statement
from tests.behaviour.branches.working import begin, by_delta_rs, everybody_reads, finish, upsert
from tests.behaviour.lakes import ids
from tests.support.inside import context_of
from tests.support.s3 import on_disk
from tests.support.tables import numbered, table_of
from tests.support.target import LakeTarget

pytestmark = pytest.mark.formats("delta")

_TABLE = (
    table_of(id="int64", v="string")
    .options(properties={"delta.enableChangeDataFeed": "true"})
    .rows(numbered(0, 1, 2))
)


def _expire(lake: lw.Lake) -> None:
    """Let the leases of all open transactions run out, as when their processes died."""
    with context_of(lake).database.write() as session:
        session.run(Statement("UPDATE lakeward_transaction SET lease_until_ms = 0"))


def _noted(lake: lw.Lake) -> int:
    with context_of(lake).database.read() as session:
        return int(session.row(Statement("SELECT count(*) FROM lakeward_branch"))[0])


def test_the_branch_of_a_dead_transaction_goes_when_the_lake_is_opened(
    lake: lw.Lake, make_lake: Callable[..., lw.Lake]
) -> None:
    place = on_disk(_TABLE.make(lake).location)
    before = sorted(place.rglob("*"))
    tx, branch = begin(lake, "t")
    upsert(branch.location, numbered(0, 9, v="new"))
    tx._lifecycle.registered.let_go()
    _expire(lake)

    other = make_lake()

    assert sorted(place.rglob("*")) == before
    assert _noted(other) == 0
    assert ids(other, "t") == [0, 1, 2]


def test_a_late_discard_leaves_the_branch_of_the_second_try(
    lake: lw.Lake, make_lake: Callable[..., lw.Lake]
) -> None:
    _TABLE.make(lake)
    _, late = begin(lake, "t", transaction_id="job-1")
    _expire(lake)
    again = make_lake()
    tx, branch = begin(again, "t", transaction_id="job-1")
    upsert(branch.location, numbered(0, v="new"))
    before = sorted(on_disk(branch.location).rglob("*"))

    late.discard()

    assert sorted(on_disk(branch.location).rglob("*")) == before
    finish(tx, branch)
    assert (0, "new") in everybody_reads(again, "t")


def test_the_branch_of_an_open_transaction_stays(
    lake: lw.Lake, make_lake: Callable[..., lw.Lake]
) -> None:
    _TABLE.make(lake)
    tx, branch = begin(lake, "t")
    upsert(branch.location, numbered(0, v="new"))
    before = sorted(on_disk(branch.location).rglob("*"))

    other = make_lake()

    assert sorted(on_disk(branch.location).rglob("*")) == before
    assert _noted(other) == 1
    branch.discard()
    tx.rollback()
    assert _noted(other) == 0


def test_of_a_commit_that_nobody_tidied_up_the_rows_stay(
    lake: lw.Lake, make_lake: Callable[..., lw.Lake]
) -> None:
    _TABLE.make(lake)
    tx, branch = begin(lake, "t")
    upsert(branch.location, numbered(0, v="first"))
    upsert(branch.location, numbered(0, v="second"))
    net = branch.net(differ=by_delta_rs)
    branch.fill(tx._view.members[branch.head.name].change, net)
    tx.commit()
    assert len(list(on_disk(branch.location).rglob("*.json"))) > 1

    other = make_lake()

    left = [p for p in on_disk(branch.location).rglob("*") if p.is_file()]
    kept = [on_disk(branch.context.storage.uri(p)) for p in branch.kept(net)]
    assert sorted(left) == sorted(kept)
    assert everybody_reads(other, "t")[0, "second"] == 1
    assert _noted(other) == 0
    assert other.doctor().findings == ()


def test_an_id_that_is_used_again_gets_another_directory(lake: lw.Lake) -> None:
    _TABLE.make(lake)
    tx, first = begin(lake, "t")
    head, definition = first.head, first.definition

    second = type(first).open(context_of(lake), tx.transaction_id, head, definition, whole=False)

    assert second.directory != first.directory
    assert second.directory.startswith(f"txn-{tx.transaction_id}-")
    with context_of(lake).database.read() as session:
        working = branches.live_directories(session, head.table_id)
    assert working == {first.directory, second.directory}
    tx.rollback()


def test_a_commit_that_the_log_lost_on_an_open_table_keeps_its_rows(
    lake_target: LakeTarget, tmp_path: Path
) -> None:
    if lake_target.is_postgres:
        pytest.skip("a store is put back as a file")
    with lake_target.open() as lake:
        _TABLE.make(lake, guard=False)
        tx, branch = begin(lake, "t")
        upsert(branch.location, numbered(0, v="new"))
        lake.backup(tmp_path / "before.db")
        net = branch.net()
        branch.fill(tx._view.members[branch.head.name].change, net)
        tx.commit()
    for path in lake_target.warehouse.glob("lakeward.db*"):
        path.unlink()
    shutil.copy(tmp_path / "before.db", lake_target.warehouse / "lakeward.db")
    with lake_target.open(repair=False) as old:
        _expire(old)

    with lake_target.open() as again:
        assert everybody_reads(again, "t")[0, "new"] == 1
        assert again.outcome(tx.transaction_id).state == "ratified"
        assert _noted(again) == 0
