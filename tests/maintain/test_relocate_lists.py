"""Versions that an Iceberg document no longer lists are restored after their lake was copied."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog

import lakeward as lw
from lakeward.errors import CorruptTable
from lakeward.log import catalog
from tests.behaviour.lakes import append, column, ids, overwrite
from tests.support.delete_files import delete_in_place


def test_unlisted_versions_are_restored_in_the_new_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakeward.maintain.relocate._FILES", 1)
    with lw.open(tmp_path / "lake") as lake:
        lake.create("t", {"id": "int64"}, format="iceberg", properties={"lakeward.snapshots": "1"})
        overwrite(lake, "t", rows(-1, 1))
        delete_first_row(tmp_path / "lake")
        append(lake, "t", rows(2))
        left = ids(lake, "t")
        assert len(left) == 2
        overwrite(lake, "t", rows(-3, 3))
    shutil.copytree(tmp_path / "lake", tmp_path / "copy")
    trial = lw.relocate(tmp_path / "copy", dry_run=True)
    done = lw.relocate(tmp_path / "copy")
    shutil.rmtree(tmp_path / "lake")

    assert done.metadata_files == trial.metadata_files
    with lw.open(tmp_path / "copy") as copy:
        overwrite(copy, "t", rows(5))  # the document forgets the version before, too
        table = copy.table("t")
        for version, wanted in ((4, [-3, 3]), (3, left), (1, [-1, 1])):
            table.restore(version=version)
            assert ids(copy, "t") == wanted
            assert of_others(tmp_path / "copy") == wanted
        assert {f.severity.value for f in copy.doctor().findings} <= {"info"}

    (tmp_path / "copy").rename(tmp_path / "again")
    lw.relocate(tmp_path / "again")
    with lw.open(tmp_path / "again") as again:
        again.table("t").restore(version=3)
        assert ids(again, "t") == of_others(tmp_path / "again") == left


@pytest.mark.parametrize("content", [None, b"", b"PAR1 without a footer PAR1"])
def test_damaged_deletes_are_in_the_way_only_of_the_newest_version(
    tmp_path: Path, content: bytes | None
) -> None:
    with lw.open(tmp_path / "lake") as lake:
        lake.create("t", {"id": "int64"}, format="iceberg")
        overwrite(lake, "t", rows(1, 2))
        delete_first_row(tmp_path / "lake")
        assert ids(lake, "t") == [2]
        shutil.copytree(tmp_path / "lake", tmp_path / "newest")
        overwrite(lake, "t", rows(3))
    shutil.copytree(tmp_path / "lake", tmp_path / "old")
    for copy in ("newest", "old"):
        (deletes,) = (tmp_path / copy / "t" / "data").glob("*-deletes.parquet")
        deletes.unlink()
        if content is not None:
            deletes.write_bytes(content)

    with pytest.raises(CorruptTable, match="deletes"):
        lw.relocate(tmp_path / "newest")
    lw.relocate(tmp_path / "old")

    with lw.open(tmp_path / "old") as copied:
        assert ids(copied, "t") == [3]
        copied.table("t").restore(version=1)
        assert ids(copied, "t") == [1, 2]


def test_deletes_that_were_compacted_away_and_vacuumed_are_not_in_the_way(tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake") as lake:
        lake.create("t", {"id": "int64"}, format="iceberg")
        overwrite(lake, "t", rows(1, 2))
        delete_first_row(tmp_path / "lake")
        lake.table("t").optimize()
        lake.table("t").vacuum(retention="0s", force=True)
    shutil.copytree(tmp_path / "lake", tmp_path / "copy")
    lw.relocate(tmp_path / "copy")
    shutil.rmtree(tmp_path / "lake")

    with lw.open(tmp_path / "copy") as copy:
        assert ids(copy, "t") == of_others(tmp_path / "copy") == [2]
        assert copy.doctor().healthy


def rows(*numbers: int) -> list[dict[str, int]]:
    """Return rows of the table."""
    return [{"id": n} for n in numbers]


def delete_first_row(place: Path) -> None:
    """Delete the first row by a delete file, as another engine."""
    opened = SqlCatalog(catalog.CATALOG, uri=f"sqlite:///{place}/lakeward.db")
    theirs = opened.load_table(f"{catalog.NAMESPACE}.t")
    (first, *_) = theirs.scan().plan_files()
    delete_in_place(theirs, {first.file.file_path: [0]})
    opened.engine.dispose()


def of_others(place: Path) -> list[int]:
    """Return the ids that pyiceberg reads."""
    opened = SqlCatalog(catalog.CATALOG, uri=f"sqlite:///{place}/lakeward.db")
    found = column(opened.load_table(f"{catalog.NAMESPACE}.t").scan().to_arrow())
    opened.engine.dispose()
    return found
