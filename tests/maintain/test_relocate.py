"""A lake that was moved or copied is made whole by `relocate`, whoever dies meanwhile."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

import lakeward as lw
from lakeward.errors import (
    CorruptTable,
    FileMissing,
    LakewardError,
    Locked,
    TransactionClosed,
    WrongWarehouse,
)
from lakeward.log import catalog
from lakeward.log.statement import Statement
from lakeward.model.steps import RELOCATE_STEPS
from tests.behaviour.lakes import append, column, delete, ids
from tests.support.delete_files import delete_in_place
from tests.support.inside import context_of
from tests.support.processes import kill_myself_at, start
from tests.support.target import LakeTarget

FORMATS = ("delta", "iceberg")


@dataclass(frozen=True)
class Moved:
    """A lake whose warehouse is going to be moved, and what it held before."""

    target: LakeTarget
    before: Mapping[str, Any]

    @property
    def there(self) -> Path:
        """The new warehouse."""
        return self.target.warehouse.with_name("there")

    def move(self) -> LakeTarget:
        """Move the files; the lake there."""
        self.target.warehouse.rename(self.there)
        return replace(self.target, warehouse=self.there)


@pytest.fixture
def lake_apart(lake_target: LakeTarget, tmp_path: Path) -> Moved:
    """A lake with tables of both formats, whose warehouse is apart from the store."""
    target = replace(lake_target, warehouse=tmp_path / "here")
    with target.open() as lake:
        fill(lake)
        return Moved(target, picture(lake))


def test_a_moved_warehouse_works_again_with_all_its_versions(lake_apart: Moved) -> None:
    there = lake_apart.move()

    done = lw.relocate(there.url, warehouse=lake_apart.there)

    assert (done.tables, done.iceberg_tables, done.dry_run) == (2, 1, False)
    assert done.new == str(lake_apart.there)
    with lw.open(there.url) as lake:
        assert lake.warehouse == str(lake_apart.there)
        assert picture(lake) == lake_apart.before
        errors = [f for f in lake.doctor().findings if f.severity.value != "info"]
        assert errors == []
        check_strangers(lake, lake_apart.before)
        for kind in FORMATS:
            append(lake, kind, rows(50))
            delete(lake, kind, "id = 50")
        assert ids(lake, "delta") == ids(lake, "iceberg") == [1, 2, 3]
        check_strangers(lake, {})


def test_nothing_of_the_old_place_is_needed_or_touched(lake_apart: Moved) -> None:
    shutil.copytree(lake_apart.target.warehouse, lake_apart.there)
    before = files_of(lake_apart.target.warehouse)

    lw.relocate(lake_apart.target.url, warehouse=lake_apart.there)

    assert files_of(lake_apart.target.warehouse) == before
    with pytest.raises(WrongWarehouse, match="not the warehouse"):
        lw.open(lake_apart.target.url, warehouse=lake_apart.target.warehouse)
    shutil.rmtree(lake_apart.target.warehouse)
    with lw.open(lake_apart.target.url) as lake:
        assert picture(lake) == lake_apart.before


@pytest.mark.parametrize("step", RELOCATE_STEPS)
def test_killed_at_any_step_it_is_moved_or_not_and_can_be_run_again(
    lake_apart: Moved, step: str
) -> None:
    there = lake_apart.move()
    worker = start(relocate_and_die, there, step)
    worker.finish()
    assert worker.killed

    # Whatever the step, nobody reads or writes a lake that is half moved.
    told = "lakeward relocate"
    try:
        with there.open() as lake:
            assert column(lake.table("delta").to_arrow()) == [1, 2, 3]
            assert picture(lake) == lake_apart.before
    except (CorruptTable, WrongWarehouse) as error:
        told = str(error)
    assert "lakeward relocate" in told

    lw.relocate(there.url, warehouse=lake_apart.there)
    with lw.open(there.url) as lake:
        assert picture(lake) == lake_apart.before
        check_strangers(lake, lake_apart.before)


def test_a_dry_run_changes_nothing(lake_apart: Moved) -> None:
    there = lake_apart.move()
    before = files_of(lake_apart.there)

    done = lw.relocate(there.url, warehouse=lake_apart.there, dry_run=True)

    assert done.dry_run
    assert done.metadata_files > 0
    assert files_of(lake_apart.there) == before
    lake_apart.there.rename(lake_apart.target.warehouse)
    with lake_apart.target.open() as lake:
        assert picture(lake) == lake_apart.before


@pytest.mark.parametrize("kind", FORMATS)
def test_a_missing_file_is_told_before_anything_is_changed(lake_apart: Moved, kind: str) -> None:
    with lake_apart.target.open() as lake:
        live = Path(lake.table(kind).files()[0].path).name
    there = lake_apart.move()
    next((lake_apart.there / kind).rglob(live)).unlink()
    before = files_of(lake_apart.there)

    with pytest.raises(FileMissing, match="Nothing was changed"):
        lw.relocate(there.url, warehouse=lake_apart.there)

    assert files_of(lake_apart.there) == before


def test_open_transactions_are_in_the_way(lake_apart: Moved) -> None:
    with lake_apart.target.open() as lake, lake.transaction() as tx:
        tx.append("delta", rows(9))
        shutil.copytree(lake_apart.target.warehouse, lake_apart.there)
        with pytest.raises(Locked, match=tx.transaction_id):
            lw.relocate(lake_apart.target.url, warehouse=lake_apart.there)
        tx.rollback()


@pytest.mark.parametrize("kind", FORMATS)
def test_a_transaction_that_stood_still_cannot_commit_any_more(
    lake_apart: Moved, kind: str
) -> None:
    with lake_apart.target.open() as lake:
        tx = lake.transaction()
        tx.append(kind, rows(9))
        with context_of(lake).database.write() as session:
            session.run(Statement("UPDATE lakeward_transaction SET lease_until_ms = 0"))
        left_out = shutil.ignore_patterns(f"*{tx.transaction_id}*")
        shutil.copytree(lake_apart.target.warehouse, lake_apart.there, ignore=left_out)
        lw.relocate(lake_apart.target.url, warehouse=lake_apart.there)

        with pytest.raises(TransactionClosed, match="expired"):
            tx.commit()

    with lw.open(lake_apart.target.url) as lake:
        assert ids(lake, kind) == [1, 2, 3]


def test_whoever_has_the_lake_open_meanwhile_commits_nothing_any_more(lake_apart: Moved) -> None:
    with lake_apart.target.open() as lake:
        append(lake, "delta", rows(8))
        shutil.copytree(lake_apart.target.warehouse, lake_apart.there)
        lw.relocate(lake_apart.target.url, warehouse=lake_apart.there)

        for kind in FORMATS:
            with pytest.raises(WrongWarehouse, match="Open it again"):
                append(lake, kind, rows(9))
        with pytest.raises(WrongWarehouse, match="Open it again"):
            lake.create("new", {"id": "int64"})

    with lw.open(lake_apart.target.url) as lake:
        assert ids(lake, "delta") == [1, 2, 3, 8]
        assert [t.name for t in lake.tables()] == ["delta", "iceberg"]


def test_the_warehouse_of_another_lake_is_refused(lake_apart: Moved, tmp_path: Path) -> None:
    with lw.open(tmp_path / "second") as other:
        fill(other)

    with pytest.raises(WrongWarehouse, match="belongs to"):
        lw.relocate(lake_apart.target.url, warehouse=tmp_path / "second")


def test_a_lake_in_one_directory_is_moved_with_it(tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake") as lake:
        fill(lake)
        before = picture(lake)
    (tmp_path / "lake").rename(tmp_path / "moved")

    with lw.open(tmp_path / "moved") as lake:
        assert ids(lake, "delta") == [1, 2, 3]
        with pytest.raises(LakewardError, match="lakeward relocate"):
            append(lake, "iceberg", rows(9))
    lw.relocate(tmp_path / "moved")

    with lw.open(tmp_path / "moved") as lake:
        assert picture(lake) == before
        check_strangers(lake, before)


def test_a_copy_becomes_a_lake_of_its_own(tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake") as lake:
        fill(lake)
        before = picture(lake)
    shutil.copytree(tmp_path / "lake", tmp_path / "copy")

    lw.relocate(tmp_path / "copy")

    with lw.open(tmp_path / "copy") as copy:
        for kind in FORMATS:
            append(copy, kind, rows(77))
    with lw.open(tmp_path / "lake") as lake:
        assert picture(lake) == before
        check_strangers(lake, before)
        assert lake.doctor().findings == ()


def test_a_store_alone_may_be_moved(tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake", warehouse=tmp_path / "here") as lake:
        fill(lake)
        before = picture(lake)
    (tmp_path / "lake").rename(tmp_path / "moved")

    assert lw.relocate(tmp_path / "moved").metadata_files == 0

    with lw.open(tmp_path / "moved") as lake:
        assert picture(lake) == before


@pytest.mark.parametrize("bounded", [True, False])
def test_rows_deleted_in_place_stay_deleted(lake_apart: Moved, bounded: bool) -> None:
    with lake_apart.target.open() as lake:
        theirs, close = foreign(lake)
        (first, *_) = theirs.scan().plan_files()
        delete_in_place(theirs, {first.file.file_path: [0]}, bounded=bounded)
        close()
        before = picture(lake)
        assert len(before["iceberg"][lake.table("iceberg").version]) == 2
    there = lake_apart.move()

    lw.relocate(there.url, warehouse=lake_apart.there)

    with lw.open(there.url) as lake:
        assert picture(lake) == before
        check_strangers(lake, before)


def test_the_doctor_never_calls_metadata_of_a_moved_table_reclaimable(tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake") as lake:
        fill(lake)
    (tmp_path / "lake").rename(tmp_path / "moved")

    with lw.open(tmp_path / "moved", repair=False) as lake:
        found = lake.doctor().findings

    assert "reclaimable" not in {f.code for f in found}
    (moved,) = [f for f in found if f.code == "table-moved"]
    assert "lakeward relocate" in str(moved.mend)


def test_the_doctor_keeps_delete_files_that_a_moved_log_names_at_the_old_place(
    tmp_path: Path,
) -> None:
    with lw.open(tmp_path / "lake") as lake:
        fill(lake)
        theirs, close = foreign(lake)
        (first, *_) = theirs.scan().plan_files()
        delete_in_place(theirs, {first.file.file_path: [0]})
        close()
        assert picture(lake)  # takes their commit over
        assert lake.doctor().findings == ()
    (tmp_path / "lake").rename(tmp_path / "moved")

    with lw.open(tmp_path / "moved", repair=False) as lake:
        found = {f.code for f in lake.doctor().findings}
    assert "table-moved" in found
    assert "reclaimable" not in found


def rows(*numbers: int) -> pa.Table:
    """Rows of the tables."""
    return pa.table({"id": pa.array(numbers, pa.int64()), "day": [f"d{n}" for n in numbers]})


def fill(lake: lw.Lake) -> None:
    """Make a table of each format, with some versions."""
    for kind in FORMATS:
        lake.create(kind, {"id": "int64", "day": "string"}, format=kind, partition_by=["day"])
        append(lake, kind, rows(1, 2))
        append(lake, kind, rows(3, 4))
        delete(lake, kind, "id = 4")


def picture(lake: lw.Lake) -> dict[str, Any]:
    """Every version of every table."""
    return {
        t.name: {h.version: column(t.at(version=h.version).to_arrow()) for h in t.history()}
        for t in lake.tables()
    }


def check_strangers(lake: lw.Lake, before: Mapping[str, Any]) -> None:
    """Let others read the tables: delta-rs, and pyiceberg by the catalog, old snapshots too."""
    delta = QueryBuilder().register("t", DeltaTable(lake.table("delta").location))
    found = pa.table(delta.execute("SELECT id FROM t"))
    assert column(found) == ids(lake, "delta")
    theirs, close = foreign(lake)
    assert theirs.location() == lake.table("iceberg").location
    assert column(theirs.scan().to_arrow()) == ids(lake, "iceberg")
    for version, wanted in before.get("iceberg", {}).items():
        number = lake.table("iceberg").at(version=version).snapshot_id
        if number is not None:
            assert column(theirs.scan(snapshot_id=number).to_arrow()) == wanted
    close()


def foreign(lake: lw.Lake, name: str = catalog.CATALOG) -> tuple[Any, Any]:
    """The Iceberg table as pyiceberg has it, and what closes its catalog."""
    database: Any = context_of(lake).database
    path = getattr(database, "path", None)
    url = f"sqlite:///{path}" if path else database._url
    opened = SqlCatalog(name, uri=url.replace("postgresql://", "postgresql+psycopg://", 1))
    return opened.load_table(f"{catalog.NAMESPACE}.iceberg"), opened.engine.dispose


def files_of(directory: Path) -> dict[str, bytes]:
    """Every file with its bytes, but for locks and the store."""
    return {
        str(p.relative_to(directory)): p.read_bytes()
        for p in directory.rglob("*")
        if p.is_file() and ".lakeward" not in p.parts and not p.name.startswith("lakeward.db")
    }


def relocate_and_die(pipe: Connection, target: LakeTarget, step: str) -> None:
    """Relocate a lake, killed at a step."""
    kill_myself_at(step, 1)
    lw.relocate(target.url, warehouse=target.warehouse)
    pipe.send("alive")


@pytest.mark.parametrize("kind", FORMATS)
def test_clones_and_branches_are_moved_too(
    lake_target: LakeTarget, tmp_path: Path, kind: str
) -> None:
    moved = with_clone_and_branch(lake_target, tmp_path, kind)
    there = moved.move()

    lw.relocate(there.url, warehouse=moved.there)

    check_clone_and_branch(there, moved, kind)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("step", ["relocate.logs", "bind.marked"])
def test_killed_after_logs_were_rewritten_clones_and_branches_are_whole_when_run_again(
    tmp_path: Path, kind: str, step: str
) -> None:
    lake_target = LakeTarget(str(tmp_path / "lake"), tmp_path / "lake")
    moved = with_clone_and_branch(lake_target, tmp_path, kind)
    there = moved.move()
    worker = start(relocate_and_die, there, step)
    worker.finish()
    assert worker.killed

    lw.relocate(there.url, warehouse=moved.there)

    check_clone_and_branch(there, moved, kind)


def with_clone_and_branch(lake_target: LakeTarget, tmp_path: Path, kind: str) -> Moved:
    """A lake with a clone and a named branch, on which somebody worked."""
    target = replace(lake_target, warehouse=tmp_path / "old place")
    with target.open() as lake:
        fill(lake)
        lake.clone(kind, "clone", version=2)
        append(lake, "clone", rows(30))
        branch = lake.branch("audit", tables=[kind])
        if kind == "delta":
            place = branch.table(kind).location
            write_deltalake(place, rows(40), mode="append")
            DeltaTable(place).create_checkpoint()
        else:
            theirs, close = foreign(lake, catalog.branch_catalog("audit"))
            theirs.append(rows(40))
            close()
        return Moved(target, picture(lake))


def check_clone_and_branch(target: LakeTarget, moved: Moved, kind: str) -> None:
    """The clone is read by others, and the branch can be published."""
    with lw.open(target.url) as lake:
        assert picture(lake) == moved.before
        errors = [f for f in lake.doctor().findings if f.severity.value != "info"]
        assert errors == []
        if kind == "delta":
            theirs = QueryBuilder().register("t", DeltaTable(lake.table("clone").location))
            assert column(pa.table(theirs.execute("SELECT id FROM t"))) == [1, 2, 3, 4, 30]
        branch = lake.branch("audit")
        (diff,) = branch.diff()
        assert (diff.rows_added, diff.rows_removed) == (1, 0)
        branch.publish()
        assert ids(lake, kind) == [1, 2, 3, 40]
        append(lake, "clone", rows(31))
        assert ids(lake, "clone") == [1, 2, 3, 4, 30, 31]
