"""Datasets whose data files are read by a filesystem of the user's own, or with read options."""

from __future__ import annotations

import json
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from datafusion import SessionContext
from pyarrow.fs import FileSystem, LocalFileSystem, SubTreeFileSystem

import lakeward as lw
from lakeward.integrations.datafusion import register
from lakeward.integrations.datasets import Dataset, DatasetLocation, Datasets, ReadOptions

SCHEMA = "id int64, name string"


@pytest.fixture
def lake(tmp_path: Path) -> Generator[lw.Lake]:
    """An empty lake."""
    with lw.open(tmp_path / "lake") as lake:
        yield lake


def _moved(table: lw.Table, to: Path) -> FileSystem:
    """Move the data files of a table elsewhere; return a filesystem with their new root."""
    directory = Path(table.location.removeprefix("file://"))
    for file in table.files():
        (to / file.path).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(directory / file.path, to / file.path)
    return SubTreeFileSystem(str(to), LocalFileSystem())


def _filled(lake: lw.Lake, format_: str, **given: Any) -> lw.Table:
    table = lake.create("t", SCHEMA, format=format_, **given)
    for n in range(3):
        table.append([{"id": 100 * n + i, "name": f"n{i}"} for i in range(100)])
    return table


def _dataset(lake: lw.Lake, **given: Any) -> Dataset:
    return Dataset(lake=lake, location=DatasetLocation(table="t", **given))


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_a_filesystem_of_the_users_own_reads_the_data_files(
    lake: lw.Lake, tmp_path: Path, format_: str
) -> None:
    table = _filled(lake, format_)
    elsewhere = _moved(table, tmp_path / "elsewhere")
    with pytest.raises(lw.errors.FileMissing):
        _dataset(lake).to_arrow()
    found = _dataset(lake, filesystem=elsewhere)
    assert found.to_arrow(where="id = 105").to_pylist() == [{"id": 105, "name": "n5"}]
    assert found.to_dataset().to_table(filter=pc.field("id") >= 299)["id"].to_pylist() == [299]
    context = SessionContext()
    done = register(context, "t", found)
    assert (done.way, done.reason) == ("dataset", "the location has a filesystem of its own")
    assert pa.table(context.sql("SELECT count(*) AS n FROM t"))["n"].to_pylist() == [300]


def test_deleted_rows_stay_deleted_under_another_filesystem(lake: lw.Lake, tmp_path: Path) -> None:
    table = _filled(lake, "delta", policy={"merge_on_read": True})
    table.delete(where="id = 5")
    assert any(f.file.deletion_vector for f in table.files())
    found = _dataset(lake, filesystem=_moved(table, tmp_path / "elsewhere"))
    assert found.to_arrow(where="id < 7")["id"].to_pylist() == [0, 1, 2, 3, 4, 6]


def test_bloom_filters_are_not_read_past_the_filesystem(lake: lw.Lake, tmp_path: Path) -> None:
    table = _filled(lake, "delta", properties={"lakeward.bloom": "name"})
    rows = pa.table({"id": pa.array([1], pa.int64()), "name": ["n5x"]})
    for file in table.files():
        pq.write_table(rows, tmp_path / file.path)
    assert table.files(where="name = 'n5x'") == []
    found = _dataset(lake, filesystem=SubTreeFileSystem(str(tmp_path), LocalFileSystem()))
    assert found.count("name = 'n5x'") == 3


def test_a_file_outside_of_the_table_is_not_looked_for_in_the_filesystem(
    lake: lw.Lake, tmp_path: Path
) -> None:
    _filled(lake, "delta")
    lake.clone("t", "copy")
    root = SubTreeFileSystem(str(tmp_path), LocalFileSystem())
    found = Dataset(lake=lake, location=DatasetLocation(table="copy", filesystem=root))
    with pytest.raises(lw.errors.UnsupportedFeature, match="not in the directory"):
        found.to_arrow()


def test_at_a_path_the_log_and_the_data_files_are_read_separately(
    lake: lw.Lake, tmp_path: Path
) -> None:
    table = _filled(lake, "delta")
    path = table.location.removeprefix("file://")
    elsewhere = _moved(table, tmp_path / "elsewhere")
    place = DatasetLocation(
        path=path, filesystem=elsewhere, read=ReadOptions(batch_size=40), version=2
    )
    found = Dataset(lake=lake, location=place)
    batches = list(found.to_reader(columns=["name", "id"]))
    assert max(b.num_rows for b in batches) <= 40
    rows = pa.Table.from_batches(batches)
    assert (rows.schema.names, sorted(rows["id"].to_pylist())) == (["name", "id"], [*range(200)])
    with pytest.raises(lw.errors.UnsupportedFeature, match="without the location's filesystem"):
        register(SessionContext(), "t", place)


@pytest.mark.parametrize(
    "properties", [{"delta.enableDeletionVectors": "true"}, {"delta.columnMapping.mode": "name"}]
)
def test_tables_that_pyarrow_reads_wrongly_are_refused_at_a_path(
    lake: lw.Lake, tmp_path: Path, properties: dict[str, str]
) -> None:
    path = _filled(lake, "delta", properties=properties).location.removeprefix("file://")
    place = DatasetLocation(path=path, filesystem=SubTreeFileSystem(path, LocalFileSystem()))
    with pytest.raises(lw.errors.UnsupportedFeature, match="deletion vectors or mapped columns"):
        Dataset(lake=lake, location=place).to_arrow()


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
@pytest.mark.parametrize("files", [1, 3])
def test_read_options_are_in_effect(lake: lw.Lake, format_: str, files: int) -> None:
    table = _filled(lake, format_)
    chosen = [f.path for f in table.files()][:files]
    options = {"batch_size": 30, "pre_buffer": True, "use_threads": False}
    found = _dataset(lake, files=chosen, read=options)
    sizes = [b.num_rows for b in found.to_reader()]
    assert (max(sizes), sum(sizes)) == (30, 100 * files)
    assert max(b.num_rows for b in found.to_dataset().to_batches()) == 30
    done = register(SessionContext(), "t", found)
    assert (done.way, done.reason) == ("dataset", "the location has read options")


def test_checksums_are_compared_if_asked_for(lake: lw.Lake) -> None:
    table = lake.create("t", SCHEMA)
    path = Path(table.location.removeprefix("file://")) / "given.parquet"
    rows = pa.table({"id": pa.array(range(100), pa.int64()), "name": ["same"] * 100})
    pq.write_table(rows, path, write_page_checksum=True, compression="none", use_dictionary=False)
    with lake.transaction() as tx:
        tx.add_files("t", ["given.parquet"])
    data = path.read_bytes()
    path.write_bytes(data.replace(b"same\x04\0\0\0same", b"same\x04\0\0\0fame", 1))
    assert _dataset(lake).to_arrow()["name"].to_pylist().count("fame") == 1
    checked = _dataset(lake, read=ReadOptions(page_checksum_verification=True))
    with pytest.raises(lw.errors.StorageError, match="CRC"):
        checked.to_arrow()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"table": "t", "read": {"speed": 1}}, "read option 'speed'"),
        ({"table": "t", "read": {"batch_size": 0}}, "batch_size"),
        ({"table": "t", "read": {"pre_buffer": "yes"}}, "pre_buffer"),
        ({"table": "t", "read": {"thrift_string_size_limit": "big"}}, "thrift_string_size_limit"),
        ({"table": "t", "filesystem": "s3"}, "filesystem of pyarrow, not str"),
        ({"path": "p", "read": {"batch_size": 5}}, "delta-rs reads"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_bad_options_are_refused(lake: lw.Lake, given: dict[str, Any], said: str) -> None:
    with pytest.raises(lw.errors.InvalidInput, match=f"Dataset bad: .*{said}"):
        Datasets(lake, {"bad": given})


def test_a_file_has_read_options_and_no_filesystem(lake: lw.Lake, tmp_path: Path) -> None:
    table = _filled(lake, "delta")
    file = tmp_path / "datasets.toml"
    file.write_text('[datasets.t]\ntable = "t"\n[datasets.t.read]\nbatch_size = 7\n')
    datasets = Datasets.load(lake, file)
    assert datasets["t"].location.read == ReadOptions(batch_size=7)
    root = _moved(table, tmp_path / "very secret")
    datasets.add("own", {"table": "t", "filesystem": root})
    assert datasets["own"].count() == 300
    shown = datasets.snapshot()
    assert shown["t"]["location"] == {"table": "t", "read": {"batch_size": 7}}
    assert shown["own"]["location"] == {"table": "t", "filesystem": "SubTreeFileSystem"}
    assert "very secret" not in json.dumps(shown) + repr(datasets["own"])
    file.write_text('[datasets.t]\ntable = "t"\nfilesystem = "s3"\n')
    with pytest.raises(lw.errors.InvalidInput, match="filesystem of pyarrow") as refused:
        Datasets.load(lake, file)
    assert "datasets.add" in str(refused.value)
