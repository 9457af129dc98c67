"""Sources of other engines and with unusual names, files and types, and sources that are refused.

Every row arrives exactly once, or the migration is refused before anything is written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

import lakeward as lw
from lakeward.errors import InvalidInput, LakewardError, SchemaMismatch, UnsupportedFeature
from tests.behaviour.iceberg.theirs import their_catalog
from tests.support.delete_files import delete_in_place


def _put(directory: Path, path: str, **columns: Any) -> None:
    place = directory / path
    place.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), place)


def _theirs(
    root: Path, *, twice: bool = False, deleted: bool = False, merged: bool = False
) -> Path:
    options = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}
    with their_catalog(root) as catalog:
        catalog.create_namespace("shop")
        columns = pa.schema([("id", pa.int64())])
        table = catalog.create_table("shop.t", columns, properties=options if merged else {})
        table.append(pa.table({"id": [1, 2, 3]}))
        path = table.inspect.files()["file_path"][0].as_py()
        if twice:
            table.add_files([path], check_duplicate_files=False)
        if deleted:
            delete_in_place(table, {path: [1]})
        return Path(table.location().removeprefix("file://"))


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_file_that_a_table_lists_twice_is_taken_in_twice(
    lake: lw.Lake, tmp_path: Path, form: str
) -> None:
    place = _theirs(tmp_path / "theirs", twice=True)
    done = lake.migrate(place, "t", format=form)
    assert (done.files, done.rows, done.is_verified) == (2, 6, True)
    assert sorted(lake.table("t").to_arrow()["id"].to_pylist()) == [1, 1, 2, 2, 3, 3]
    assert lake.migrate(place, "t", format=form).state == "nothing"


@pytest.mark.parametrize("how", ["deleted", "merged"])
def test_a_table_that_lists_a_file_twice_in_one_place_is_refused(
    lake: lw.Lake, tmp_path: Path, how: str
) -> None:
    place = _theirs(tmp_path / "theirs", twice=True, **{how: True})
    with pytest.raises(UnsupportedFeature, match="more than once"):
        lake.migrate(place, "t")
    assert lake.tables() == []


def test_an_iceberg_table_with_delete_files_is_migrated(lake: lw.Lake, tmp_path: Path) -> None:
    place = _theirs(tmp_path / "theirs", deleted=True)
    assert lake.migrate(place, "t", dry_run=True).rows == 2
    done = lake.migrate(place, "t")
    assert (done.rows, done.is_verified) == (2, True)
    assert sorted(lake.table("t").to_arrow()["id"].to_pylist()) == [1, 3]


def test_a_delta_table_without_statistics_is_migrated(lake: lw.Lake, tmp_path: Path) -> None:
    write_deltalake(tmp_path / "in", pa.table({"x": [1, 2, 3]}))
    log = tmp_path / "in/_delta_log/00000000000000000000.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        action.get("add", {}).pop("stats", None)
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))

    done = lake.migrate(tmp_path / "in", "t", format="iceberg")

    assert (done.rows, done.is_verified, lake.table("t").count()) == (3, True, 3)


@pytest.mark.parametrize("mode", ["copy", "in-place"])
@pytest.mark.parametrize("key", ["_day", ".day", "a%20b", "k%3Dk"])
def test_partition_columns_may_have_unusual_names(
    lake: lw.Lake, tmp_path: Path, key: str, mode: str
) -> None:
    for day in (1, 2):
        _put(tmp_path / "in", f"{key}={day}/a.parquet", i=[day])
    done = lake.migrate(tmp_path / "in", "t", mode=mode)
    assert (done.files, done.is_verified, lake.table("t").count()) == (2, True, 2)


@pytest.mark.parametrize("key", ["__row", "_list"])
def test_partition_columns_may_be_named_as_helpers_were(
    lake: lw.Lake, tmp_path: Path, key: str
) -> None:
    _put(tmp_path / "in", "a.parquet", **{key: [5, 6, 5], "x": [1, 2, 3]})
    done = lake.migrate(tmp_path / "in", "t", partition_by=[key])
    assert done.is_verified
    assert {c.partition for c in done.checks} == {f"{key}=5", f"{key}=6"}


def test_an_export_of_a_lake_is_migrated_back(lake: lw.Lake, tmp_path: Path) -> None:
    made = lake.create("t", {"id": "int64", "p": "string"})
    made.append({"id": [1, 2], "p": ["x", None]})
    made.export(tmp_path / "out", partition_by=["p"])
    assert lake.migrate(tmp_path / "out", "back").is_verified
    assert lake.table("back").to_arrow().sort_by("id") == made.to_arrow().sort_by("id")


def test_nanoseconds_beside_microseconds_become_microseconds(lake: lw.Lake, tmp_path: Path) -> None:
    _put(tmp_path / "in", "a.parquet", t=pa.array([1000], pa.timestamp("ns", "UTC")))
    _put(tmp_path / "in", "b.parquet", t=pa.array([253402214400000000], pa.timestamp("us", "UTC")))
    assert lake.migrate(tmp_path / "in", "t").is_verified
    found = sorted(lake.table("t").to_arrow()["t"].to_pylist())
    assert found == [datetime(1970, 1, 1, 0, 0, 0, 1, UTC), datetime(9999, 12, 31, tzinfo=UTC)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.array([2**53 + 1]), pa.array([0.5])),
        (pa.array([1], pa.timestamp("ns")), pa.array([1], pa.timestamp("us"))),
        (pa.array(["text"]), pa.array([b"bytes"])),
        (pa.array([Decimal("0.1")]), pa.array([0.5])),
        (pa.array([[2**53 + 1]]), pa.array([[0.5]])),
        (pa.array([{"a": "text"}]), pa.array([{"a": b"bytes"}])),
    ],
    ids=["number", "moment", "bytes", "decimal", "list", "struct"],
)
def test_values_that_would_change_are_refused_before_anything_is_written(
    lake: lw.Lake, tmp_path: Path, one: pa.Array, other: pa.Array
) -> None:
    _put(tmp_path / "in", "a.parquet", c=other)
    _put(tmp_path / "in", "b.parquet", c=one)
    with pytest.raises(SchemaMismatch, match="disagree about column c") as caught:
        lake.migrate(tmp_path / "in", "t", dry_run=True)
    assert sorted(caught.value.files.values()) == [["a.parquet"], ["b.parquet"]]


def test_whole_numbers_beside_fractions_are_exact(lake: lw.Lake, tmp_path: Path) -> None:
    _put(tmp_path / "in", "a.parquet", c=[0.5])
    _put(tmp_path / "in", "b.parquet", c=[2**53])
    assert lake.migrate(tmp_path / "in", "t").is_verified
    assert sorted(lake.table("t").to_arrow()["c"].to_pylist()) == [0.5, 2.0**53]


def _double_names(root: Path) -> None:
    root.mkdir()
    both = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])
    pq.write_table(both, root / "a.parquet")


def _not_text(root: Path) -> None:
    _put(root, "k/a.parquet", x=[1])
    os.rename(os.fsencode(root / "k"), os.fsencode(root) + b"/k=\xff")  # noqa: PTH104  bytes


@pytest.mark.parametrize(
    ("make", "message"),
    [(_double_names, "more than one column 'x'"), (_not_text, r"k=\\udcff.*not UTF-8")],
    ids=["columns", "name"],
)
def test_names_that_no_table_can_have_are_refused(
    lake: lw.Lake, tmp_path: Path, make: Callable[[Path], None], message: str
) -> None:
    make(tmp_path / "in")
    with pytest.raises(LakewardError, match=message):
        lake.migrate(tmp_path / "in", "t")
    assert lake.tables() == []


@pytest.mark.parametrize("place", ["no/such/report.json", "in"])
def test_a_report_that_cannot_be_written_is_refused_at_once(
    lake: lw.Lake, tmp_path: Path, place: str
) -> None:
    _put(tmp_path / "in", "a.parquet", x=[1])
    with pytest.raises(InvalidInput, match="report"):
        lake.migrate(tmp_path / "in", "t", report=tmp_path / place)
    assert lake.tables() == []
