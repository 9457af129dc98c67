"""Migrations that are run again, by several processes, and after the table changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeward as lw
from lakeward.errors import Conflict, InvalidInput, SchemaMismatch
from lakeward.maintain.migrate import run
from lakeward.maintain.migrate.run import Migrator
from lakeward.model import steps
from tests.support.target import LakeTarget


def _put(directory: Path, name: str, **columns: Any) -> None:
    directory.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), directory / name)


def _values(table: lw.Table) -> list[int]:
    return sorted(table.to_arrow()["x"].to_pylist())


@pytest.mark.parametrize("is_new", [True, False], ids=["new", "there"])
def test_of_two_runs_at_once_only_one_takes_in_a_file(
    lake_target: LakeTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_new: bool
) -> None:
    source = tmp_path / "in"
    _put(source, "a.parquet", x=[0])
    take_in = Migrator._take_in
    others: list[int] = []

    def overtaken(self: Migrator, *args: Any, **options: Any) -> int:
        if not others:
            others.append(1)
            with lake_target.open() as other:
                assert other.migrate(source, "t").is_verified
        return take_in(self, *args, **options)

    with lake_target.open() as lake:
        if not is_new:
            lake.migrate(source, "t")
            _put(source, "b.parquet", x=[1])
        monkeypatch.setattr(Migrator, "_take_in", overtaken)
        with pytest.raises(Conflict, match=r"another migration has added \w\.parquet"):
            lake.migrate(source, "t")
        assert _values(lake.table("t")) == ([0] if is_new else [0, 1])
        assert lake.migrate(source, "t").is_verified


def test_a_run_that_adds_a_later_file_first_is_noticed(
    lake_target: LakeTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_BATCH_FILES", 1)
    source = tmp_path / "in"
    for n in range(3):
        _put(source, f"{n}.parquet", x=[n])
    with lake_target.open() as lake, lake_target.open() as other:
        steps.observe(lambda step: _once(step, lambda: other.migrate(source, "t")))
        try:
            with pytest.raises(Conflict, match="another migration has added"):
                lake.migrate(source, "t")
        finally:
            steps.observe(None)
        assert _values(lake.table("t")) == [0, 1, 2]


def _once(step: str, do: Callable[[], object]) -> None:
    """Do something after the first batch."""
    if step == "migrate.taken":
        steps.observe(None)
        do()


def test_a_table_that_was_made_again_meanwhile_is_left_alone(
    lake_target: LakeTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_BATCH_FILES", 1)
    source = tmp_path / "in"
    for n in range(3):
        _put(source, f"{n}.parquet", x=[n])

    def again() -> None:
        other.drop("t")
        other.migrate(source, "t")

    with lake_target.open() as lake, lake_target.open() as other:
        steps.observe(lambda step: _once(step, again))
        try:
            with pytest.raises(Conflict, match="made again"):
                lake.migrate(source, "t")
        finally:
            steps.observe(None)
        assert _values(lake.table("t")) == [0, 1, 2]


def test_of_two_runs_that_read_the_same_file_one_commits(
    lake_target: LakeTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "in"
    _put(source, "a.parquet", x=[0])
    rows = Migrator._rows

    def beside(self: Migrator, *args: Any) -> Any:
        monkeypatch.setattr(Migrator, "_rows", rows)
        with lake_target.open() as other:
            other.migrate(source, "t")
        return rows(self, *args)

    monkeypatch.setattr(Migrator, "_rows", beside)
    with lake_target.open() as lake:
        with pytest.raises(Conflict, match=r"another migration has added a\.parquet"):
            lake.migrate(source, "t")
        assert _values(lake.table("t")) == [0]
        assert len(lake.table("t").files()) == 1


def test_files_that_a_rebuilt_store_does_not_know_are_not_taken_in_twice(tmp_path: Path) -> None:
    source = tmp_path / "in"
    _put(source, "a.parquet", x=[0])
    with lw.open(tmp_path / "lake") as lake:
        lake.migrate(source, "t")
        table = lake.table("t")
        table.append([{"x": 7}])
        table.checkpoint()
        table.expire(retention="0s", force=True)
        _put(source, "b.parquet", x=[1])
        assert lake.migrate(source, "t").is_verified is False
    for file in (tmp_path / "lake").glob("lakeward.db*"):
        file.unlink()
    with lw.open(tmp_path / "lake", take_over=True) as lake:
        lake.rebuild()
        with pytest.raises(InvalidInput, match="log of t begins at version"):
            lake.migrate(source, "t")
        assert _values(lake.table("t")) == [0, 1, 7]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"format": "delta"}, "format='iceberg'"),
        ({"format": "iceberg", "mode": "in-place"}, "mode='copy'"),
        ({"format": "iceberg", "partition_by": []}, "is partitioned by y"),
    ],
    ids=["format", "mode", "partitions"],
)
def test_other_options_than_those_of_the_table_are_refused(
    lake: lw.Lake, tmp_path: Path, given: dict[str, Any], message: str
) -> None:
    _put(tmp_path / "in", "a.parquet", x=[1], y=["q"])
    lake.migrate(tmp_path / "in", "t", format="iceberg", partition_by=["y"])
    with pytest.raises(InvalidInput, match=message):
        lake.migrate(tmp_path / "in", "t", **given)
    again = lake.migrate(tmp_path / "in", "t", format="iceberg")
    assert (again.state, again.partition_by) == ("nothing", ("y",))
    assert again.is_verified


def test_a_report_has_the_columns_of_the_table(lake: lw.Lake, tmp_path: Path) -> None:
    _put(tmp_path / "in", "a.parquet", x=pa.array([1], pa.int32()))
    lake.migrate(tmp_path / "in", "t")
    _put(tmp_path / "in", "b.parquet", x=pa.array([2], pa.int64()))
    assert lake.migrate(tmp_path / "in", "t").columns == {"x": "int32"}


def _renamed(lake: lw.Lake) -> None:
    with lake.transaction() as tx:
        tx.alter("t").rename_column("y", "z")


def test_a_table_without_a_column_of_the_source_is_refused(lake: lw.Lake, tmp_path: Path) -> None:
    _put(tmp_path / "in", "a.parquet", x=[1], y=["q"])
    lake.migrate(tmp_path / "in", "t")
    _renamed(lake)
    with pytest.raises(SchemaMismatch, match="lacks column 'y'"):
        lake.migrate(tmp_path / "in", "t")


@pytest.mark.parametrize(
    "alter",
    [
        lambda change: change.change_type("x", "int64"),
        lambda change: change.drop_column("x").add_column("x", "struct<a: int64>"),
    ],
    ids=["wider", "nested"],
)
def test_values_that_the_source_cannot_have_are_differences(
    lake: lw.Lake, tmp_path: Path, alter: Callable[[Any], object]
) -> None:
    _put(tmp_path / "in", "a.parquet", x=pa.array([1], pa.int32()), y=["q"])
    lake.migrate(tmp_path / "in", "t")
    with lake.transaction() as tx:
        alter(tx.alter("t"))
    is_wider = str(lake.table("t").schema.by_name["x"].type) == "int64"
    lake.table("t").append([{"x": 2**40 if is_wider else {"a": 1}, "y": "r"}])
    again = lake.migrate(tmp_path / "in", "t")
    assert not again.is_verified
    assert {c.column for c in again.checks if not c.is_same} == {"x", "y"}


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_an_empty_table_is_migrated_and_has_no_interrupted_migration(
    lake: lw.Lake, form: str
) -> None:
    lake.create("empty", {"x": "int64"})
    done = lake.migrate("empty", "t", format=form)
    assert (done.state, done.version, lake.table("t").count()) == ("done", 1, 0)
    again = lake.migrate("empty", "t", format=form)
    assert (again.state, again.version, again.notes) == ("nothing", 1, ())
    lake.table("empty").append([{"x": 1}])
    assert lake.migrate("empty", "t", format=form).is_verified


def test_a_source_is_known_by_every_spelling_of_its_path(lake: lw.Lake, tmp_path: Path) -> None:
    _put(tmp_path / "in", "a.parquet", x=[1])
    done = lake.migrate(f"{tmp_path}/in/../in/", "t")
    assert done.source == str(tmp_path / "in")
    assert lake.migrate(tmp_path / "in", "t").state == "nothing"
