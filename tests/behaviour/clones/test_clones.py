"""A clone stands on the files of another table's version, and goes its own way from there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import lakeward as lw
from lakeward.errors import (
    AlreadyExists,
    InvalidInput,
    TableNotFound,
    UnsupportedFeature,
    VersionNotFound,
)
from lakeward.log import branches, heads
from lakeward.model.names import TableName
from lakeward.write.tables import clone as clones
from tests.behaviour.adoption.vectors import delete_rows
from tests.behaviour.branches.working import upsert
from tests.behaviour.lakes import append, column, data_files, delete, ids
from tests.support.iceberg import stranger_arrow, stranger_catalog
from tests.support.inside import context_of
from tests.support.invariants import check_lake
from tests.support.s3 import on_disk
from tests.support.tables import table_of

_TABLE = (
    table_of("id int64 not null, p string")
    .partitioned("p")
    .options(constraints={"small": "id < 1000"})
    .rows({"id": [1, 2], "p": ["x y", "50%"]}, {"id": [3], "p": ["ü"]})
)


def _held(lake: lw.Lake, name: str) -> set[int]:
    with context_of(lake).database.read() as session:
        found = heads.get(session, TableName.parse(name))
        return branches.held_versions(session, found.table_id)


def test_a_clone_has_the_rows_and_copies_nothing(lake: lw.Lake) -> None:
    _TABLE.make(lake, "a")

    made = lake.clone("a", "copy")

    assert ids(lake, "copy") == [1, 2, 3]
    assert ids(lake, "copy", where="p = '50%'") == [2]
    assert data_files(lake, "copy") == set()
    assert made.schema == lake.table("a").schema
    assert (made.partition_by, made.constraints) == (["p"], {"small": "id < 1000"})
    told = made.history()[0]
    assert told.operation == "CLONE"
    assert told.parameters["source"] == "a"
    assert told.parameters["sourceVersion"] == "2"
    check_lake(lake, ["a", "copy"])
    assert lake.doctor().findings == ()


def test_the_two_go_their_own_ways(lake: lw.Lake) -> None:
    _TABLE.make(lake, "a")
    lake.clone("a", "copy")

    delete(lake, "copy", "id = 1")
    append(lake, "copy", {"id": [7], "p": ["x y"]})
    append(lake, "a", {"id": [9], "p": ["x y"]})

    assert ids(lake, "copy") == [2, 3, 7]
    assert ids(lake, "a") == [1, 2, 3, 9]
    check_lake(lake, ["a", "copy"])
    with pytest.raises(lw.errors.ConstraintViolation):
        append(lake, "copy", {"id": [5000], "p": ["x y"]})


def test_a_clone_may_be_of_any_version_or_moment(lake: lw.Lake) -> None:
    _TABLE.make(lake, "a")
    before = lake.table("a").at(version=1).timestamp
    delete(lake, "a", "id = 2")

    lake.clone("a", "by_version", version=1)
    lake.clone("a", "by_time", timestamp=before)
    lake.clone("a", "empty", version=0)

    assert ids(lake, "by_version") == ids(lake, "by_time") == [1, 2]
    assert ids(lake, "empty") == []
    assert _held(lake, "a") == {0, 1}
    assert lake.doctor().findings == ()


@pytest.mark.local
def test_what_a_clone_stands_on_is_held_until_the_clone_is_vacuumed(lake: lw.Lake) -> None:
    _TABLE.make(lake, "a")
    lake.clone("a", "b", version=1)
    append(lake, "b", {"id": [7], "p": ["x y"]})

    lake.clone("b", "c")

    assert _held(lake, "a") == {1}
    assert _held(lake, "b") == {lake.table("b").version}
    lake.drop("b")
    assert _held(lake, "a") == {1}
    assert ids(lake, "c") == [1, 2, 7]
    lake.drop("c")
    assert _held(lake, "a") == {1}
    # The first one deletes the files of c, which stands on b.
    for _ in range(2):
        lake.vacuum(retention="0s", force=True)
    assert _held(lake, "a") == set()


def test_what_cannot_be_cloned_is_refused_before_anything_is_made(lake: lw.Lake) -> None:
    _TABLE.make(lake, "a")
    with pytest.raises(VersionNotFound):
        lake.clone("a", "b", version=99)
    with pytest.raises(TableNotFound):
        lake.clone("nope", "b")
    with pytest.raises(InvalidInput):
        lake.clone("a", "b", version=1, timestamp="2020-01-01")
    with pytest.raises(AlreadyExists):
        lake.clone("a", "a")
    assert [t.name for t in lake.tables()] == ["a"]
    assert _held(lake, "a") == set()


@pytest.mark.formats("delta")
def test_deletion_vectors_are_shared_too(lake: lw.Lake, tmp_path: Path) -> None:
    # On an object store delta-rs escapes the name of a vector twice.
    place = tmp_path / ("place" if "://" in lake.warehouse else "with space")
    write_deltalake(place, pa.table({"id": [1, 2, 3]}))
    (path,) = [p.name for p in place.glob("*.parquet")]
    delete_rows(place, 1, path, [1])
    lake.adopt("a", str(place))

    lake.clone("a", "copy")

    assert ids(lake, "copy") == [1, 3]
    assert lake.table("copy").guarded
    check_lake(lake, ["copy"])
    assert lake.doctor().findings == ()


@pytest.mark.formats("delta")
def test_very_many_files_come_with_a_checkpoint(
    lake: lw.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clones, "_MANY", 1)
    _TABLE.make(lake, "a")

    made = lake.clone("a", "copy")

    log = on_disk(made.location) / "_delta_log"
    assert (log / f"{0:020}.checkpoint.parquet").exists()
    assert ids(lake, "copy") == [1, 2, 3]
    assert lake.doctor().findings == ()


@pytest.mark.formats("delta")
def test_a_clone_is_branched_like_any_table(lake: lw.Lake) -> None:
    _TABLE.make(lake, "a")
    lake.clone("a", "copy")
    branch = lake.branch("try", tables=["copy"])
    upsert(branch.table("copy").location, pa.table({"id": [1], "p": ["moved"]}))

    branch.publish()

    assert ids(lake, "copy", where="p = 'moved'") == [1]
    assert ids(lake, "copy") == ids(lake, "a") == [1, 2, 3]
    check_lake(lake, ["a", "copy"])


@pytest.mark.local
@pytest.mark.formats("delta")
def test_a_rebuilt_store_knows_what_clones_stand_on(lake: lw.Lake, tmp_path: Path) -> None:
    _TABLE.make(lake, "a")
    lake.clone("a", "b", version=1)
    lake.clone("b", "c")
    warehouse = tmp_path / "other"
    shutil.copytree(lake.warehouse, warehouse, ignore=shutil.ignore_patterns("lakeward.db*"))

    with lw.open(warehouse, take_over=True) as other:
        other.rebuild()

        assert _held(other, "a") == {1}
        assert _held(other, "b") == {0}
        assert column(other.table("c").to_arrow()) == [1, 2]


@pytest.mark.formats("iceberg")
def test_an_iceberg_table_of_others_is_not_cloned_yet(lake: lw.Lake) -> None:
    catalog = stranger_catalog(lake)
    catalog.create_namespace_if_not_exists("s")
    catalog.create_table("s.foreign", pa.schema([("id", pa.int64())]))
    lake.adopt("s.foreign", catalog.load_table("s.foreign").metadata_location)

    with pytest.raises(UnsupportedFeature, match="made by another engine"):
        lake.clone("s.foreign", "copy")


@pytest.mark.formats("iceberg")
@pytest.mark.parametrize("change", ["add", "drop"])
def test_files_of_an_older_partitioning_are_shared_under_theirs(lake: lw.Lake, change: str) -> None:
    by = ["bucket(4, id)"] if change == "drop" else []
    table = lake.create("a", "id int64", partition_by=by)
    append(lake, "a", {"id": [1, 2]})
    alteration = table.alter()
    if change == "add":
        alteration.add_partition_field("bucket(4, id)").commit()
    else:
        alteration.drop_partition_field("bucket(4, id)").commit()
    append(lake, "a", {"id": [3]})

    for name, version, expected in (("new", None, [1, 2, 3]), ("old", 1, [1, 2])):
        made = lake.clone("a", name, version=version)
        assert made.partition_by == (by if version else table.partition_by)
        append(lake, name, {"id": [9]})
        assert ids(lake, name) == [*expected, 9]
        assert [ids(lake, name, where=f"id = {n}") for n in (1, 9)] == [[1], [9]]
        assert sorted(stranger_arrow(lake, name)["id"].to_pylist()) == [*expected, 9]
    assert lake.doctor().findings == ()
