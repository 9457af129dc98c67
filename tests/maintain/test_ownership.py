"""A store and a warehouse know each other, and a wrong pair is refused before a byte is written."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

import lakeward as lw
from lakeward.errors import InvalidInput, LakewardError, NotFound, StoreCorrupt, WrongWarehouse
from lakeward.log import binding, tables
from lakeward.log.statement import Statement
from lakeward.maintain.ownership import MARKER, read_marker
from lakeward.model.steps import BIND_STEPS
from tests.behaviour.lakes import append, ids
from tests.support.inside import context_of
from tests.support.processes import kill_myself_at, start, started
from tests.support.target import LakeTarget


@pytest.fixture
def apart(lake_target: LakeTarget, tmp_path: Path) -> LakeTarget:
    """A lake whose warehouse is not the store's directory."""
    return replace(lake_target, warehouse=tmp_path / "warehouse")


def test_a_forgotten_warehouse_is_the_recorded_one(apart: LakeTarget) -> None:
    with apart.open() as lake:
        lake.create("t", {"id": "int64"})
        append(lake, "t", {"id": [1]})

    with lw.open(apart.url) as lake:
        append(lake, "t", {"id": [2]})

    with apart.open() as lake:
        assert lake.warehouse == str(apart.warehouse)
        assert ids(lake, "t") == [1, 2]
        assert lake.doctor().findings == ()


def test_another_warehouse_is_refused_and_the_recorded_one_named(
    apart: LakeTarget, tmp_path: Path
) -> None:
    with apart.open() as lake:
        lake.create("t", {"id": "int64"})

    with pytest.raises(WrongWarehouse, match=str(apart.warehouse)) as refused:
        lw.open(apart.url, warehouse=tmp_path / "other")

    assert refused.value.recorded == str(apart.warehouse)
    assert not (tmp_path / "other").exists()


def test_a_second_store_is_refused_and_not_made(apart: LakeTarget, tmp_path: Path) -> None:
    apart.open().close()

    for options in ({}, {"create": False}, {"repair": False}):
        with pytest.raises(LakewardError) as refused:
            lw.open(tmp_path / "second", warehouse=apart.warehouse, **options)  # type: ignore[arg-type]
        assert type(refused.value).__name__ in ("WrongWarehouse", "LakeNotFound")

    assert not (tmp_path / "second").exists()


def test_a_store_with_tables_is_refused_by_a_warehouse_of_another(
    apart: LakeTarget, tmp_path: Path
) -> None:
    with apart.open() as lake:
        lake.create("t", {"id": "int64"})
    with lw.open(tmp_path / "second") as other:
        other.create("t", {"id": "int64"})

    with pytest.raises(WrongWarehouse, match="not the warehouse of this store"):
        lw.open(tmp_path / "second", warehouse=apart.warehouse)
    with pytest.raises(WrongWarehouse):
        lw.open(tmp_path / "second", warehouse=apart.warehouse, take_over=True)


def test_opening_again_writes_nothing(apart: LakeTarget) -> None:
    with apart.open() as lake:
        lake.create("t", {"id": "int64"})
    marker = apart.warehouse / MARKER
    before = (marker.stat().st_mtime_ns, marker.stat().st_ino, recorded(apart))

    lw.open(apart.url).close()
    apart.open().close()

    assert (marker.stat().st_mtime_ns, marker.stat().st_ino, recorded(apart)) == before


def test_many_who_open_a_new_lake_at_once_agree_on_one_identity(apart: LakeTarget) -> None:
    with started(4, open_and_tell, apart) as workers:
        said = [worker.finish()[-1] for worker in workers]

    assert len({identity for identity, _ in said}) == 1, said
    assert said[0][0] == recorded(apart).identity


def test_of_two_stores_for_one_new_warehouse_one_wins(tmp_path: Path) -> None:
    targets = [LakeTarget(str(tmp_path / str(n)), tmp_path / "warehouse") for n in range(4)]

    with started(4, open_one, targets) as workers:
        said = [worker.finish()[-1] for worker in workers]

    assert sorted(kind for _, kind in said) == ["WrongWarehouse"] * 3 + ["opened"]
    winner = targets[[kind for _, kind in said].index("opened")]
    for target in targets:
        if target is winner:
            target.open().close()
        else:
            with pytest.raises(WrongWarehouse):
                target.open()


@pytest.mark.parametrize("step", BIND_STEPS)
def test_a_lake_whose_making_was_cut_off_is_completed(apart: LakeTarget, step: str) -> None:
    worker = start(open_and_die, apart, step)
    worker.finish()
    assert worker.killed

    with apart.open() as lake:
        lake.create("t", {"id": "int64"})
        found = read_marker(context_of(lake).storage)
    assert found is not None
    assert found.identity == recorded(apart).identity
    lw.open(apart.url).close()


def test_a_store_of_an_earlier_version_is_bound_where_its_tables_are(
    apart: LakeTarget, tmp_path: Path
) -> None:
    with apart.open() as lake:
        lake.create("t", {"id": "int64"})
        lake.create("i", {"id": "int64"}, format="iceberg")
        append(lake, "t", {"id": [1]})
        forget(lake)

    with pytest.raises(WrongWarehouse, match="none of the tables"):
        lw.open(apart.url, warehouse=tmp_path / "other")
    assert not (tmp_path / "other").exists()

    with apart.open() as lake:
        append(lake, "t", {"id": [2]})
    with lw.open(apart.url) as lake:
        assert ids(lake, "t") == [1, 2]


def test_a_store_that_was_copied_is_refused_by_the_warehouse(tmp_path: Path) -> None:
    target = LakeTarget(str(tmp_path / "lake"), tmp_path / "warehouse")
    with target.open() as lake:
        lake.create("t", {"id": "int64"})
    shutil.copytree(tmp_path / "lake", tmp_path / "copy")

    with pytest.raises(WrongWarehouse, match="lakeward relocate"):
        lw.open(tmp_path / "copy")
    target.open().close()


def test_a_lake_that_was_copied_is_refused_while_the_original_is_there(tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake") as lake:
        lake.create("t", {"id": "int64"})
        append(lake, "t", {"id": [1]})
    shutil.copytree(tmp_path / "lake", tmp_path / "copy")

    with pytest.raises(WrongWarehouse, match="lakeward relocate"):
        lw.open(tmp_path / "copy")


def test_a_lake_that_was_moved_as_a_whole_opens(tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake") as lake:
        lake.create("t", {"id": "int64"})
        append(lake, "t", {"id": [1]})
    (tmp_path / "lake").rename(tmp_path / "moved")

    with lw.open(tmp_path / "moved") as lake:
        assert append(lake, "t", {"id": [2]}) == 2
        assert ids(lake, "t") == [1, 2]
        assert lake.doctor().findings == ()


def test_the_same_warehouse_by_a_link_is_the_same(apart: LakeTarget, tmp_path: Path) -> None:
    apart.open().close()
    (tmp_path / "link").symlink_to(apart.warehouse)

    lw.open(apart.url, warehouse=tmp_path / "link").close()


@pytest.mark.postgres
def test_hosts_may_see_the_warehouse_of_a_server_under_paths_of_their_own(
    postgres_url: str, tmp_path: Path
) -> None:
    with lw.open(postgres_url, warehouse=tmp_path / "here") as lake:
        lake.create("t", {"id": "int64"})
    (tmp_path / "here").rename(tmp_path / "there")

    with lw.open(postgres_url, warehouse=tmp_path / "there") as lake:
        assert append(lake, "t", {"id": [1]}) == 1


@pytest.mark.postgres
def test_a_new_lake_on_a_server_needs_a_warehouse(postgres_url: str) -> None:
    with pytest.raises(InvalidInput, match="needs a warehouse"):
        lw.open(postgres_url)


def test_a_lost_store_is_not_replaced_by_an_empty_one(tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake") as lake:
        lake.create("t", {"id": "int64"})
    for path in (tmp_path / "lake").glob("lakeward.db*"):
        path.unlink()

    with pytest.raises(WrongWarehouse, match="lakeward rebuild"):
        lw.open(tmp_path / "lake")
    assert not list((tmp_path / "lake").glob("lakeward.db*"))

    with lw.open(tmp_path / "lake", take_over=True) as lake:
        assert lake.rebuild().tables == {"t": 0}
    with lw.open(tmp_path / "lake") as lake:
        assert append(lake, "t", {"id": [1]}) == 1


def test_a_warehouse_is_taken_over_only_when_its_store_is_gone(
    make_lake: Callable[[], lw.Lake], lake_target: LakeTarget, tmp_path: Path
) -> None:
    with make_lake() as lake:
        lake.create("t", {"id": "int64"})
        append(lake, "t", {"id": [1]})
    asked = {"warehouse": lake_target.warehouse, "take_over": True}
    if not lake_target.is_postgres:
        with pytest.raises(WrongWarehouse, match="still exists"):
            lw.open(tmp_path / "new", **asked)  # type: ignore[arg-type]
        (lake_target.warehouse / "lakeward.db").rename(tmp_path / "lakeward.db")

    with lw.open(tmp_path / "new", **asked) as new:  # type: ignore[arg-type]
        assert new.rebuild().tables == {"t": 1}

    if not lake_target.is_postgres:
        (tmp_path / "lakeward.db").rename(lake_target.warehouse / "lakeward.db")
    with pytest.raises(WrongWarehouse, match="taken over"):
        make_lake()


def test_an_export_is_not_imported_where_its_tables_are_not(lake: lw.Lake, tmp_path: Path) -> None:
    lake.create("t", {"id": "int64"})
    lake.export_store(tmp_path / "store.zip")

    with lw.open(tmp_path / "other") as other:
        with pytest.raises(WrongWarehouse, match="none of the tables"):
            other.import_store(tmp_path / "store.zip")
        assert other.tables() == []


@pytest.mark.parametrize("kind", ["directory", "list"])
def test_what_is_no_export_is_not_imported(lake: lw.Lake, tmp_path: Path, kind: str) -> None:
    place = tmp_path / "given"
    if kind == "directory":
        place.mkdir()
    else:
        with zipfile.ZipFile(place, "w") as archive:
            archive.writestr("manifest.json", "[]")
    with pytest.raises((NotFound, StoreCorrupt), match="given"):
        lake.import_store(place)


def recorded(target: LakeTarget) -> binding.Binding:
    """What the store records."""
    with lw.open(target.url) as lake, context_of(lake).database.read() as session:
        found = binding.read(session)
    assert found is not None
    return found


def forget(lake: lw.Lake) -> None:
    """Make the lake one of an earlier version, which recorded no warehouse."""
    gone = Statement(f"DELETE FROM {tables.store.name} WHERE key = 'warehouse'")
    with context_of(lake).database.write() as session:
        session.run(gone)
    (Path(lake.warehouse) / MARKER).unlink()


def open_and_tell(pipe: Connection, number: int, target: LakeTarget) -> None:
    """Open a lake when told to, and tell its identity."""
    pipe.send("ready")
    pipe.recv()
    with target.open() as lake, context_of(lake).database.read() as session:
        found = binding.read(session)
        pipe.send((None if found is None else found.identity, number))


def open_one(pipe: Connection, number: int, targets: list[LakeTarget]) -> None:
    """Open one of several lakes when told to, and tell how it went."""
    pipe.send("ready")
    pipe.recv()
    try:
        targets[number].open().close()
        pipe.send((number, "opened"))
    except LakewardError as error:
        pipe.send((number, type(error).__name__))


def open_and_die(pipe: Connection, target: LakeTarget, step: str) -> None:
    """Make a lake, killed at a step."""
    kill_myself_at(step, 1)
    target.open().close()
    pipe.send("alive")


@pytest.mark.postgres
def test_a_copy_of_a_servers_warehouse_is_refused_while_the_original_is_there(
    postgres_url: str, tmp_path: Path
) -> None:
    with lw.open(postgres_url, warehouse=tmp_path / "here") as lake:
        lake.create("t", {"id": "int64"})
    shutil.copytree(tmp_path / "here", tmp_path / "copy")

    with pytest.raises(WrongWarehouse, match="copy of"):
        lw.open(postgres_url, warehouse=tmp_path / "copy")
