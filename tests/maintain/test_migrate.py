"""Migration of Parquet directories and of tables into a lake."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import lakeward as lw
from lakeward.errors import InvalidInput, LakewardError, SchemaMismatch
from lakeward.model import steps
from tests.behaviour.iceberg.theirs import eventful, their_catalog


def _put(directory: Path, path: str, **columns: Any) -> Path:
    place = directory / path
    place.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), place)
    return place


@pytest.fixture
def hive(tmp_path: Path) -> Path:
    """A directory with Hive partitions, a column that not all files have, and foreign files."""
    root = tmp_path / "events"
    _put(root, "day=2026-01-01/region=eu/a.parquet", id=[1, 2], v=[1.5, None])
    _put(root, "day=2026-01-01/region=us/b.parquet", id=[3], v=[float("nan")])
    _put(root, "day=2026-01-02/region=eu/c.parquet", id=[4], v=[2.0], note=["new"])
    (root / "_SUCCESS").write_text("")
    (root / ".hidden").write_text("")
    return root


def _ids(table: lw.Table) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


@pytest.mark.parametrize(
    ("form", "mode"), [("delta", "copy"), ("iceberg", "copy"), ("delta", "in-place")]
)
def test_a_hive_directory_becomes_a_table_with_its_partitions(
    lake: lw.Lake, hive: Path, form: str, mode: str
) -> None:
    done = lake.migrate(hive, "events", format=form, mode=mode)

    table = lake.table("events")
    assert done.state == "done"
    assert (done.files, done.rows, done.new_files) == (3, 4, 3)
    assert done.is_verified
    assert {c.partition for c in done.checks} == {
        "day=2026-01-01/region=eu",
        "day=2026-01-01/region=us",
        "day=2026-01-02/region=eu",
    }
    assert _ids(table) == [1, 2, 3, 4]
    assert table.count("day = '2026-01-01' AND region = 'eu'") == 2
    assert table.partition_by == ["day", "region"]
    assert table.to_arrow(where="id = 4")["note"].to_pylist() == ["new"]
    assert not lake.doctor(tables=["events"]).findings
    if form == "delta":
        assert DeltaTable(table.location).version() == table.version


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_files_stay_in_place_and_rows_can_change(lake: lw.Lake, tmp_path: Path, form: str) -> None:
    source = tmp_path / "plain"
    _put(source, "a.parquet", id=[1, 2])
    _put(source, "b.parquet", id=[3])
    before = {p.name: p.read_bytes() for p in source.iterdir()}

    assert lake.migrate(source, "t", format=form, mode="in-place").is_verified
    table = lake.table("t")
    table.delete(where="id = 2")
    table.append({"id": [9]})
    table.optimize()

    assert _ids(table) == [1, 3, 9]
    assert {p.name: p.read_bytes() for p in source.iterdir()} == before


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_vacuum_leaves_files_in_place(lake: lw.Lake, tmp_path: Path, form: str) -> None:
    kept = _put(tmp_path / "plain", "a.parquet", id=[1, 2])
    lake.migrate(tmp_path / "plain", "t", format=form, mode="in-place")
    lake.table("t").overwrite({"id": [9]})
    lake.table("t").vacuum(retention="0s", force=True, unknown=True)
    lake.drop("t")
    lake.vacuum(retention="0s", force=True, unknown=True)
    assert kept.exists()


def test_partitions_that_cannot_stay_in_place_are_refused(lake: lw.Lake, hive: Path) -> None:
    with pytest.raises(LakewardError, match="only directories have"):
        lake.migrate(hive, "events", format="iceberg", mode="in-place")
    with pytest.raises(InvalidInput, match="shall be by"):
        lake.migrate(hive, "events", mode="in-place", partition_by=["day"])
    assert lake.tables() == []


def test_an_iceberg_table_of_others_becomes_a_delta_table(lake: lw.Lake, tmp_path: Path) -> None:
    with their_catalog(tmp_path / "theirs") as theirs:
        made, expected = eventful(theirs, "shop.orders")
        place = made.location().removeprefix("file://")
    before = sorted(str(p) for p in Path(place).rglob("*"))

    assert lake.migrate(place, "t").is_verified
    assert _ids(lake.table("t")) == expected[-1]
    assert sorted(str(p) for p in Path(place).rglob("*")) == before


def test_a_difference_is_reported(lake: lw.Lake, tmp_path: Path) -> None:
    _put(tmp_path / "in", "a.parquet", id=[1, 2])
    lake.migrate(tmp_path / "in", "t")
    lake.table("t").update(set={"id": "7"}, where="id = 2")
    again = lake.migrate(tmp_path / "in", "t")
    assert not again.is_verified
    assert [c.column for c in again.checks if not c.is_same] == ["id"]


def test_a_dry_run_reports_everything_and_changes_nothing(lake: lw.Lake, hive: Path) -> None:
    planned = lake.migrate(hive, "events", dry_run=True)

    assert planned.state == "planned"
    assert planned.columns["note"] == "string"
    assert planned.partition_by == ("day", "region")
    assert lake.tables() == []


@pytest.mark.parametrize("mode", ["copy", "in-place"])
def test_new_files_are_taken_in_and_changed_and_deleted_ones_reported(
    lake: lw.Lake, tmp_path: Path, mode: str
) -> None:
    source = tmp_path / "plain"
    first = _put(source, "a.parquet", id=[1])
    gone = _put(source, "b.parquet", id=[2])
    lake.migrate(source, "t", mode=mode)
    assert lake.migrate(source, "t", mode=mode).state == "nothing"
    _put(source, "c.parquet", id=[3])

    again = lake.migrate(source, "t", mode=mode)

    assert (again.state, again.new_files, again.is_verified) == ("done", 1, True)
    if mode == "copy":
        gone.unlink()
        pq.write_table(pa.table({"id": [1, 1]}), first)
        last = lake.migrate(source, "t", mode=mode)
        assert (last.changed, last.deleted, last.state) == (
            ("a.parquet",),
            ("b.parquet",),
            "nothing",
        )
    assert _ids(lake.table("t")) == [1, 2, 3]


def test_an_interrupted_migration_goes_on_unless_the_source_changed(
    lake: lw.Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakeward.maintain.migrate import run

    monkeypatch.setattr(run, "_BATCH_FILES", 1)
    source = tmp_path / "plain"
    for n in range(4):
        _put(source, f"{n}.parquet", id=[n])
    _interrupted(lambda: lake.migrate(source, "t"), "migrate.taken", 2)
    assert _ids(lake.table("t")) == [0, 1]

    os.utime(source / "1.parquet", (1, 1))
    with pytest.raises(InvalidInput, match="changed since its migration was interrupted"):
        lake.migrate(source, "t")
    assert _ids(lake.table("t")) == [0, 1]

    lake.drop("t")
    _interrupted(lambda: lake.migrate(source, "u"), "ratify.inserted", 3)
    done = lake.migrate(source, "u")
    assert (done.state, done.is_verified) == ("done", True)
    assert "continued" in done.notes[0]
    assert _ids(lake.table("u")) == [0, 1, 2, 3]


def _interrupted(do: Callable[[], object], step: str, occurrence: int) -> None:
    left = [occurrence]

    def reached(name: str) -> None:
        left[0] -= name == step
        if left[0] == 0:
            left[0] = -1
            raise KeyboardInterrupt

    steps.observe(reached)
    try:
        with pytest.raises(KeyboardInterrupt):
            do()
    finally:
        steps.observe(None)


@pytest.mark.parametrize(("source", "form"), [("delta", "iceberg"), ("iceberg", "delta")])
def test_a_table_of_the_lake_becomes_one_of_the_other_format(
    lake: lw.Lake, source: str, form: str
) -> None:
    table = lake.create("old", {"id": "int64", "p": "string"}, format=source, partition_by=["p"])
    table.append({"id": [1, 2, 3], "p": ["a", "a", "b"]})
    table.delete(where="id = 2")

    done = lake.migrate("old", "new", format=form)

    assert done.is_verified
    assert (lake.table("new").format, _ids(lake.table("new"))) == (form, [1, 3])
    assert lake.table("new").partition_by == ["p"]


@pytest.mark.parametrize("rewrite", ["optimize", "update"])
def test_rows_that_the_source_rewrote_are_not_taken_in_twice(lake: lw.Lake, rewrite: str) -> None:
    old = lake.create("old", {"id": "int64"})
    old.append({"id": [1]})
    old.append({"id": [2]})
    lake.migrate("old", "new", format="iceberg")
    old.append({"id": [3]})
    assert lake.migrate("old", "new", format="iceberg").new_files == 1
    if rewrite == "optimize":
        old.optimize()
    else:
        old.update(set={"id": "9"}, where="id = 2")

    for dry_run in (True, False):
        with pytest.raises(InvalidInput, match="rewrote rows"):
            lake.migrate("old", "new", format="iceberg", dry_run=dry_run)

    assert _ids(lake.table("new")) == [1, 2, 3]


def test_rows_that_the_source_deleted_are_reported(lake: lw.Lake) -> None:
    old = lake.create("old", {"id": "int64"})
    old.append({"id": [1]})
    old.append({"id": [2]})
    lake.migrate("old", "new", format="iceberg")
    old.delete(where="id = 2")

    again = lake.migrate("old", "new", format="iceberg")

    assert (again.state, len(again.deleted)) == ("nothing", 1)
    assert _ids(lake.table("new")) == [1, 2]


def test_a_delta_table_of_others_becomes_an_iceberg_table(lake: lw.Lake, tmp_path: Path) -> None:
    place = tmp_path / "foreign"
    write_deltalake(place, pa.table({"id": [1, 2]}))
    write_deltalake(place, pa.table({"id": [3]}), mode="append")
    before = sorted(str(p) for p in place.rglob("*"))

    done = lake.migrate(place, "t", format="iceberg")

    assert done.is_verified
    assert _ids(lake.table("t")) == [1, 2, 3]
    assert sorted(str(p) for p in place.rglob("*")) == before


def test_the_report_is_written_as_a_page_and_as_json(
    lake: lw.Lake, hive: Path, tmp_path: Path
) -> None:
    lake.migrate(hive, "events", report=tmp_path / "report.html")
    lake.migrate(hive, "events", report=tmp_path / "report.json")

    page = (tmp_path / "report.html").read_text()
    assert "day=2026-01-01/region=eu" in page
    assert page.startswith("<!doctype html>")
    assert json.loads((tmp_path / "report.json").read_text())["is_verified"] is True


def test_files_that_disagree_are_named(lake: lw.Lake, tmp_path: Path) -> None:
    source = tmp_path / "plain"
    _put(source, "good.parquet", id=[1])
    _put(source, "bad.parquet", id=["one"])
    with pytest.raises(SchemaMismatch, match="bad") as caught:
        lake.migrate(source, "t")
    assert caught.value.files == {"string": ["bad.parquet"], "int64": ["good.parquet"]}
    assert lake.tables() == []


def test_wider_numbers_are_merged_in_copies_and_refused_in_place(
    lake: lw.Lake, tmp_path: Path
) -> None:
    source = tmp_path / "plain"
    _put(source, "a.parquet", id=pa.array([1], pa.int32()))
    _put(source, "b.parquet", id=[2**40])
    with pytest.raises(SchemaMismatch, match="in other files"):
        lake.migrate(source, "t", mode="in-place")
    assert lake.tables() == []
    assert lake.migrate(source, "t").is_verified


def _clash(root: Path) -> None:
    _put(root, "p=1/a.parquet", id=[1], p=[2])


def _twice(root: Path) -> None:
    _put(root, "p=1/p=2/a.parquet", id=[1])


def _mixed(root: Path) -> None:
    _put(root, "p=1/a.parquet", id=[1])
    _put(root, "q=1/b.parquet", id=[1])


def _outside(root: Path) -> None:
    other = _put(root.parent / "elsewhere", "secret.parquet", id=[1])
    _put(root, "a.parquet", id=[1])
    (root / "link.parquet").symlink_to(other)


def _around(root: Path) -> None:
    _put(root, "a.parquet", id=[1])
    (root / "loop").symlink_to(root)


def _two_directories(root: Path) -> None:
    _put(root, "p=1/a.parquet", id=[1])
    (root / "p=2").symlink_to(root / "p=1")


def _outer_directory(root: Path) -> None:
    _put(root.parent / "elsewhere", "secret.parquet", id=[1])
    _put(root, "a.parquet", id=[1])
    (root / "more").symlink_to(root.parent / "elsewhere")


def _two_names(root: Path) -> None:
    (root / "b.parquet").symlink_to(_put(root, "a.parquet", id=[1]))


def _broken(root: Path) -> None:
    root.mkdir()
    (root / "a.parquet").write_text("no")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_clash, "lies in p=1"),
        (_twice, "two values for p"),
        (_mixed, "in different ways"),
        (_outside, "leads outside"),
        (_around, "loop is a link to a directory"),
        (_two_directories, "p=2 is a link to a directory"),
        (_outer_directory, "leads outside"),
        (_two_names, "are one file"),
        (_broken, "is no Parquet file"),
        (lambda root: root.mkdir(), "no data files"),
        (lambda _: None, "There is no directory"),
    ],
)
def test_bad_sources_are_refused_and_nothing_changes(
    lake: lw.Lake, tmp_path: Path, make: Callable[[Path], object], message: str
) -> None:
    make(tmp_path / "source")
    with pytest.raises(LakewardError, match=message):
        lake.migrate(tmp_path / "source", "t")
    assert lake.tables() == []


def test_links_to_files_that_are_not_listed_themselves_are_followed(
    lake: lw.Lake, tmp_path: Path
) -> None:
    root = tmp_path / "source"
    (root / "a.parquet").symlink_to(_put(root, "_stored/1.parquet", id=[1]))
    (tmp_path / "by_link").symlink_to(root)

    assert lake.migrate(tmp_path / "by_link", "t").is_verified
    assert _ids(lake.table("t")) == [1]


@pytest.mark.parametrize(
    ("path", "value"), [("p=01", 1), ("p=true", True), ("p=1.50", 1.5), ("p=x", "x")], ids=str
)
def test_columns_and_directories_agree_by_value(
    lake: lw.Lake, tmp_path: Path, path: str, value: object
) -> None:
    _put(tmp_path / "in", f"{path}/a.parquet", id=[1], p=[value])
    assert lake.migrate(tmp_path / "in", "t", partition_by=[]).is_verified
    assert lake.table("t").to_arrow()["p"].to_pylist() == [value]


@pytest.mark.parametrize(
    "made",
    [
        {"schema": {"id": "int64", "v": "int64"}, "format": "iceberg"},
        {"schema": {"id": "int64", "other": "int64"}},
        {"schema": {"id": "int64", "v": "int64"}, "partition_by": ["v"]},
    ],
    ids=["format", "columns", "partitions"],
)
def test_an_empty_table_that_no_migration_made_is_left_alone(
    lake: lw.Lake, tmp_path: Path, made: dict[str, Any]
) -> None:
    _put(tmp_path / "in", "a.parquet", id=[1], v=[1])
    lake.create("t", **made)
    with pytest.raises(InvalidInput, match="no migration made"):
        lake.migrate(tmp_path / "in", "t")
    assert lake.table("t").version == 0


def test_a_source_that_changed_during_a_later_run_is_refused(
    lake: lw.Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakeward.maintain.migrate import run

    monkeypatch.setattr(run, "_BATCH_FILES", 1)
    source = tmp_path / "plain"
    _put(source, "0.parquet", id=[0])
    lake.migrate(source, "t")
    os.utime(source / "0.parquet", (1, 1))
    for n in (1, 2):
        _put(source, f"{n}.parquet", id=[n])
    _interrupted(lambda: lake.migrate(source, "t"), "migrate.taken", 1)
    assert _ids(lake.table("t")) == [0, 1]

    # What changed before is reported; what the interrupted run took in must be as it was.
    assert lake.migrate(source, "t", dry_run=True).changed == ("0.parquet",)
    os.utime(source / "1.parquet", (1, 1))
    with pytest.raises(InvalidInput, match="changed since its migration was interrupted"):
        lake.migrate(source, "t")
    assert _ids(lake.table("t")) == [0, 1]


def test_a_table_that_no_migration_made_is_left_alone(lake: lw.Lake, hive: Path) -> None:
    lake.create("events", {"id": "int64"}).append({"id": [7]})
    with pytest.raises(InvalidInput, match="no migration made"):
        lake.migrate(hive, "events")
    assert _ids(lake.table("events")) == [7]


@pytest.mark.parametrize("given", [{"mode": "move"}, {"format": "orc"}, {"partition_by": ["x"]}])
def test_bad_arguments_are_refused(lake: lw.Lake, hive: Path, given: dict[str, Any]) -> None:
    with pytest.raises(LakewardError):
        lake.migrate(hive, "events", **given)
    assert lake.tables() == []
