"""Tables that were dropped come back by `undrop` after their lake was moved or copied."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from pyiceberg.table import StaticTable

import lakeward as lw
from lakeward.errors import FileMissing
from tests.behaviour.lakes import append, column, delete, ids

ROW_3 = pa.table({"id": pa.array([3], pa.int64())})


def test_a_dropped_iceberg_table_comes_back_in_the_new_place(tmp_path: Path) -> None:
    copy = copied(tmp_path, with_dropped_table)

    with lw.open(copy) as lake:
        lake.undrop("gone")
        assert ids(lake, "gone") == [2]
        metadata = Path(lake.table("gone").location, "metadata")
        newest = (metadata / "version-hint.text").read_text().strip()
        theirs = StaticTable.from_metadata(f"{metadata}/{newest}.metadata.json")
        assert column(theirs.scan().to_arrow()) == [2]
        append(lake, "gone", [{"id": 3}])
        lake.table("gone").restore(version=1)
        assert ids(lake, "gone") == [1, 2]
        assert {f.severity.value for f in lake.doctor().findings} <= {"info"}


def test_a_dropped_delta_clone_and_a_branch_come_back_in_the_new_place(tmp_path: Path) -> None:
    def fill(lake: lw.Lake) -> None:
        lake.create("source", {"id": "int64"})
        append(lake, "source", [{"id": 1}])
        lake.clone("source", "clone")
        append(lake, "clone", [{"id": 2}])
        lake.branch("audit", tables=["clone"])
        write_deltalake(lake.branch("audit").table("clone").location, ROW_3, mode="append")
        lake.drop("clone")
        lake.drop("source")

    copy = copied(tmp_path, fill)

    with lw.open(copy) as lake:
        lake.undrop("clone")
        assert ids(lake, "clone") == [1, 2]
        theirs = QueryBuilder().register("t", DeltaTable(lake.table("clone").location))
        assert column(pa.table(theirs.execute("SELECT id FROM t"))) == [1, 2]
        lake.branch("audit").publish()
        assert ids(lake, "clone") == [1, 2, 3]


def test_a_missing_file_of_a_dropped_table_is_told_before_anything_is_changed(
    tmp_path: Path,
) -> None:
    with lw.open(tmp_path / "lake") as lake:
        with_dropped_table(lake)
    (tmp_path / "lake").rename(tmp_path / "moved")
    for found in (tmp_path / "moved" / "gone").rglob("*.parquet"):
        found.unlink()

    with pytest.raises(FileMissing, match="dropped tables"):
        lw.relocate(tmp_path / "moved")


def test_a_vacuumed_table_is_not_in_the_way(tmp_path: Path) -> None:
    def fill(lake: lw.Lake) -> None:
        with_dropped_table(lake)
        lake.vacuum(retention="0s", force=True)

    copied(tmp_path, fill)


def test_a_dropped_table_that_others_own_is_moved_only_if_it_is_whole(tmp_path: Path) -> None:
    def fill(lake: lw.Lake) -> None:
        with_dropped_table(lake)
        place = Path(lake.warehouse, "gone")
        lake.adopt("theirs", place, take_over=True)
        lake.drop("theirs")
        shutil.rmtree(place)

    copied(tmp_path, fill)


def with_dropped_table(lake: lw.Lake) -> None:
    """A table with three versions that is dropped."""
    lake.create("gone", {"id": "int64"}, format="iceberg")
    append(lake, "gone", [{"id": 1}, {"id": 2}])
    delete(lake, "gone", "id = 1")
    lake.drop("gone")


def copied(tmp_path: Path, fill: Callable[[lw.Lake], None]) -> Path:
    """Fill a lake, copy it, adapt the copy and delete the original; return the copy."""
    with lw.open(tmp_path / "lake") as lake:
        fill(lake)
    shutil.copytree(tmp_path / "lake", tmp_path / "copy")
    lw.relocate(tmp_path / "copy")
    shutil.rmtree(tmp_path / "lake")
    return tmp_path / "copy"
