"""Exports: rows of a version as files that need no lake, whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import time_machine

import lakeward as lw
from lakeward.errors import AlreadyExists, InvalidInput, TableNotFound, VersionNotFound
from tests.behaviour.lakes import append
from tests.support.processes import start
from tests.support.target import LakeTarget


@pytest.fixture
def shop(lake: lw.Lake, table_format: str) -> lw.Lake:
    lake.create("sales.orders", {"id": "int64", "region": "string"}, format=table_format)
    lake.create("nested", {"id": "int64", "tags": "list<string>"}, format=table_format)
    append(lake, "sales.orders", {"id": [1, 2, 3], "region": ["a", "b/c", None]})
    append(lake, "nested", {"id": [1], "tags": [["x", "y"]]})
    lake.tag("begun")
    append(lake, "sales.orders", {"id": [4], "region": ["a"]})
    return lake


def _read(path: Path, kind: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for file in sorted(path.rglob(f"*.{kind}")):
        if kind == "parquet":
            rows += pq.ParquetFile(file).read().to_pylist()
        elif kind == "csv":
            rows += pyarrow.csv.read_csv(file).to_pylist()
        elif kind == "arrow":
            rows += pa.ipc.open_file(file).read_all().to_pylist()
        else:
            rows += [json.loads(line) for line in file.read_text().splitlines()]
    return sorted(rows, key=lambda row: row["id"])


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl", "arrow"])
def test_a_version_is_exported_with_a_manifest(shop: lw.Lake, tmp_path: Path, kind: str) -> None:
    target = tmp_path / "out" / "orders"
    seen: list[tuple[int, int | None]] = []
    done = (
        shop.table("sales.orders")
        .at(tag="begun")
        .export(target, format=kind, progress=lambda *at: seen.append(at))
    )
    assert [row["id"] for row in _read(target, kind)] == [1, 2, 3]
    assert (done.version, done.rows, seen[-1]) == (1, 3, (3, 3))
    manifest = json.loads((target / "manifest.json").read_text())
    assert (manifest["table"], manifest["version"], manifest["rows"]) == ("sales.orders", 1, 3)
    assert manifest["columns"] == [["id", "int64"], ["region", "string"]]
    for part in manifest["files"]:
        data = (target / part["path"]).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (part["bytes"], part["sha256"])
    assert [p.name for p in target.parent.iterdir()] == ["orders"]


def test_partitions_and_files_of_so_many_rows(shop: lw.Lake, tmp_path: Path) -> None:
    target = tmp_path / "out"
    done = shop.table("sales.orders").export(target, partition_by=["region"], max_rows_per_file=1)
    assert [f.rows for f in done.files] == [1, 1, 1, 1]
    found = ds.dataset(target, partitioning="hive", exclude_invalid_files=True).to_table()
    rows = sorted((r["id"], r["region"]) for r in found.to_pylist())
    assert rows == [(1, "a"), (2, "b/c"), (3, None), (4, "a")]


@pytest.mark.one_pair
def test_rows_of_many_partitions_do_not_wait_in_memory(
    shop: lw.Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakeward.read.export._WAITING_BYTES", 0)
    target = tmp_path / "out"
    shop.table("sales.orders").export(target, partition_by=["region"])
    (file,) = (target / "region=a").iterdir()
    assert pq.ParquetFile(file).metadata.num_row_groups == 2
    assert sorted(pq.read_table(file, partitioning=None)["id"].to_pylist()) == [1, 4]


def test_all_tables_are_exported_at_one_cut(shop: lw.Lake, tmp_path: Path) -> None:
    with shop.snapshot(at="begun") as cut:
        done = cut.export(tmp_path / "all")
    assert {e.table: e.version for e in done} == {"nested": 1, "sales.orders": 1}
    manifest = json.loads((tmp_path / "all" / "manifest.json").read_text())
    assert (manifest["tag"], manifest["versions"]) == ("begun", {"nested": 1, "sales.orders": 1})
    assert [r["id"] for r in _read(tmp_path / "all" / "sales.orders", "parquet")] == [1, 2, 3]
    with pytest.raises(TableNotFound):
        shop.snapshot().export(tmp_path / "other", tables=["nothing"])
    assert not (tmp_path / "other").exists()


def test_what_fails_leaves_nothing(shop: lw.Lake, tmp_path: Path) -> None:
    table = shop.table("sales.orders")

    class Stopped(Exception):
        pass

    def stop(*_: object) -> None:
        raise Stopped

    with pytest.raises(Stopped):
        table.export(tmp_path / "out", progress=stop)
    assert not any(p.name.endswith(".partial") for p in tmp_path.iterdir())
    assert not (tmp_path / "out").exists()


def _export_and_die(_: Connection, target: LakeTarget, place: str) -> None:
    with target.open() as lake:
        lake.table("sales.orders").export(
            place, max_rows_per_file=1, progress=lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        )


def test_an_export_that_is_killed_is_not_there(
    shop: lw.Lake, lake_target: LakeTarget, tmp_path: Path
) -> None:
    worker = start(_export_and_die, lake_target, str(tmp_path / "out"))
    worker.finish()

    assert worker.killed
    assert not (tmp_path / "out").exists()
    assert shop.table("sales.orders").export(tmp_path / "out").rows == 4


@pytest.mark.before_the_store
def test_targets_and_formats_that_cannot_be_are_refused(shop: lw.Lake, tmp_path: Path) -> None:
    table = shop.table("sales.orders")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    cases: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
        (tmp_path / "taken", {}, AlreadyExists, "already"),
        (Path(shop.warehouse, "out"), {}, InvalidInput, "in the lake"),
        (Path(shop.warehouse).parent, {}, InvalidInput, "in the lake"),
        (tmp_path / "o", {"format": "xlsx"}, InvalidInput, "cannot be exported as 'xlsx'"),
        (tmp_path / "o", {"partition_by": ["x"]}, InvalidInput, "no column 'x'"),
        (tmp_path / "o", {"partition_by": ["id", "region"]}, InvalidInput, "must have a column"),
        (tmp_path / "o", {"partition_by": ["id", "id"]}, InvalidInput, "more than once"),
        (tmp_path / "o", {"max_rows_per_file": 0}, InvalidInput, "max_rows_per_file"),
        (tmp_path / "o", {"columns": ["x"]}, InvalidInput, "x"),
        ("", {}, InvalidInput, "path"),
    ]
    for path, given, error, says in cases:
        with pytest.raises(error, match=says):
            table.export(path, **given)
    with pytest.raises(InvalidInput, match=r"Column tags is .*, which CSV cannot hold"):
        shop.table("nested").export(tmp_path / "o", format="csv")
    with pytest.raises(InvalidInput, match="Column tags"):
        shop.snapshot().export(tmp_path / "o", format="csv")
    assert not (tmp_path / "o").exists()
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith(".")) == []


@pytest.mark.local
def test_a_version_that_is_gone_names_what_is_promised_and_what_works(shop: lw.Lake) -> None:
    table = shop.table("sales.orders")
    table.overwrite(pa.table({"id": [9], "region": ["z"]}))
    for file in table.at(version=1).files():
        Path(table.location, file.path).unlink()
    found = table.retention()
    assert found.period == timedelta(days=90)
    assert (found.promised_version, found.oldest_version) == (0, 0)
    assert found.held_versions == (1,)
    for version in (1, 2):
        with pytest.raises(
            VersionNotFound, match="promised, and the oldest that can be read"
        ) as raised:
            table.at(version=version).to_arrow()
        assert (raised.value.promised_version, raised.value.oldest_version) == (0, 0)
    assert table.to_arrow()["id"].to_pylist() == [9]
    assert table.at(version=3).to_arrow()["id"].to_pylist() == [9]


def test_the_period_is_that_of_a_policy_as_it_is_for_a_vacuum(lake: lw.Lake) -> None:
    table = lake.create("s.t", {"id": "int64"})
    lake.set_policy("s.*", {"retention": "10 days"})
    assert table.retention().period == timedelta(days=10)
    table.alter().set_property("lakeward.retention", "5d").commit()
    assert table.retention().period == timedelta(days=5)


def test_the_oldest_promised_version_is_the_one_of_a_period_ago(lake: lw.Lake) -> None:
    with time_machine.travel(datetime.now(UTC) - timedelta(hours=3)):
        table = lake.create("t", {"id": "int64"})
        append(lake, "t", {"id": [1]})
    append(lake, "t", {"id": [2]})
    assert table.retention().promised_version == 0
    table.alter().set_property("lakeward.retention", "2 hours").commit()
    assert table.retention().promised_version == 1
    table.alter().set_property("lakeward.retention", "4 hours").commit()
    assert table.retention().promised_version == 0


@pytest.mark.formats("delta")
def test_the_period_is_a_property_of_the_table(lake: lw.Lake) -> None:
    table = lake.create("t", {"id": "int64"}, properties={"lakeward.retention": "2 hours"})
    assert table.retention().period == timedelta(hours=2)
    table.alter().set_property("lakeward.retention", "30d").commit()
    assert table.retention().period == timedelta(days=30)
    with pytest.raises(InvalidInput, match="not a duration"):
        table.alter().set_property("lakeward.retention", "soon").commit()


def test_json_lines_have_texts_for_what_json_has_no_number_for(
    lake: lw.Lake, tmp_path: Path
) -> None:
    table = lake.create("t", {"x": "float64", "f": "float32", "l": "list<float64>"})
    nan, inf = float("nan"), float("inf")
    table.append({"x": [nan, inf, 1.5], "f": [-inf, None, nan], "l": [[nan, 1.0], None, [-inf]]})

    table.export(tmp_path / "out", format="jsonl")

    (file,) = (tmp_path / "out").glob("*.jsonl")
    assert [json.loads(line) for line in file.read_text().splitlines()] == [
        {"x": "NaN", "f": "-Infinity", "l": ["NaN", 1.0]},
        {"x": "Infinity", "f": None, "l": None},
        {"x": 1.5, "f": "NaN", "l": ["-Infinity"]},
    ]
    lake.create("u", {"x": "float64", "f": "float32", "l": "list<float64>"})
    append(lake, "u", file)
    assert str(lake.table("u").to_arrow()) == str(table.to_arrow())


def test_directories_name_values_that_can_be_read_back(lake: lw.Lake, tmp_path: Path) -> None:
    table = lake.create("t", {"id": "int64", "a/b": "string", "raw": "binary"})
    table.append({"id": [1, 2], "a/b": ["x", None], "raw": [b"x", None]})

    table.export(tmp_path / "out", partition_by=["a/b"])

    found = sorted(p.parent.name for p in (tmp_path / "out").rglob("*.parquet"))
    assert found == ["a%2Fb=__HIVE_DEFAULT_PARTITION__", "a%2Fb=x"]
    with pytest.raises(InvalidInput, match="raw of t is binary"):
        table.export(tmp_path / "other", partition_by=["raw"])
    table.append({"id": [3], "a/b": ["__HIVE_DEFAULT_PARTITION__"], "raw": [None]})
    with pytest.raises(InvalidInput, match="stands for null"):
        table.export(tmp_path / "other", partition_by=["a/b"])
    assert not (tmp_path / "other").exists()


def test_only_columns_whose_values_repeat_get_a_dictionary(lake: lw.Lake, tmp_path: Path) -> None:
    rows = pa.table({"id": pa.array(range(20_000)), "region": ["a", "b", None, "c"] * 5_000})
    lake.create("t", like=rows).append(rows)
    lake.create("empty", like=rows)
    for name, wanted in (("t", rows), ("empty", rows.slice(0, 0))):
        done = lake.table(name).export(tmp_path / name)
        file = pq.ParquetFile(tmp_path / name / done.files[0].path)
        assert file.read().equals(wanted)
        if name == "t":
            group = file.metadata.row_group(0)
            assert [group.column(n).has_dictionary_page for n in (0, 1)] == [False, True]


@pytest.mark.parametrize("column", ["_list", "_row_list", "__row"])
def test_partitions_have_the_values_of_a_column_of_any_name(
    lake: lw.Lake, tmp_path: Path, column: str
) -> None:
    table = lake.create("t", {column: "string", "x": "int64"})
    table.append({column: ["a", "b", "a"], "x": [1, 2, 3]})
    done = table.export(tmp_path / "out", partition_by=[column])
    assert {f.path.split("/")[0]: f.rows for f in done.files} == {
        f"{column}=a": 2,
        f"{column}=b": 1,
    }
