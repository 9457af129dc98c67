"""Datasets: locations, a registry from a file, scans of given files, and write modes."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakeward as lw
from lakeward.integrations.datasets import Dataset, DatasetLocation, Datasets, WriteOptions

TOML = """
[datasets.orders]
table = "sales.orders"

[datasets.orders.write]
mode = "upsert"
key = ["id"]

[datasets.orders.retry]
attempts = 3

[datasets.first]
table = "sales.orders"
version = 1
columns = ["id"]
where = "amount > 10"

[datasets.new]
table = "gold.new"
lock = "write"
[datasets.new.write]
format = "iceberg"
[datasets.new.constraints]
positive = "amount > 0"

[datasets.elsewhere]
path = "PATH"
[datasets.elsewhere.storage_options]
AWS_SECRET_ACCESS_KEY = "very secret"
"""
YAML = """
datasets:
  orders: {table: sales.orders, scan: {pruning: false}}
"""


@pytest.fixture
def lake(tmp_path: Path) -> Generator[lw.Lake]:
    """A lake with a table of three files."""
    with lw.open(tmp_path / "lake") as lake:
        table = lake.create("sales.orders", "id int64, amount int64")
        for n in range(3):
            table.append([{"id": 2 * n + i, "amount": 10 * (2 * n + i)} for i in range(2)])
        yield lake


@pytest.fixture
def datasets(lake: lw.Lake, tmp_path: Path) -> Datasets:
    """The datasets of a file."""
    text = TOML.replace("PATH", lake.table("sales.orders").location.removeprefix("file://"))
    (tmp_path / "datasets.toml").write_text(text)
    return Datasets.load(lake, tmp_path / "datasets.toml")


def test_datasets_of_a_file_are_read_as_it_says(datasets: Datasets) -> None:
    assert sorted(datasets) == ["elsewhere", "first", "new", "orders"]
    assert datasets["orders"].count() == 6
    assert datasets["orders"].to_arrow(where="id = :id", params={"id": 3}).num_rows == 1
    assert datasets["first"].to_arrow().to_pylist() == []
    assert datasets["elsewhere"].to_arrow(columns=["id"]).num_rows == 6


def test_yaml_is_read_too(lake: lw.Lake, tmp_path: Path) -> None:
    (tmp_path / "d.yaml").write_text(YAML)
    found = Datasets.load(lake, tmp_path / "d.yaml")
    assert not found["orders"].location.scan.pruning


def test_a_snapshot_of_the_registry_masks_storage_options(datasets: Datasets) -> None:
    shown = json.dumps(datasets.snapshot(), default=str)
    assert "very secret" not in shown
    assert "very secret" not in repr(datasets["elsewhere"])
    found = datasets.snapshot()
    assert found["elsewhere"]["location"]["storage_options"] == {"AWS_SECRET_ACCESS_KEY": "***"}
    assert found["orders"]["version"] == 3
    assert found["orders"]["write"] == {"mode": "upsert", "key": ["id"]}
    assert "gold.new" in found["new"]["error"]


def test_only_the_given_files_are_read_and_they_must_be_of_the_version(lake: lw.Lake) -> None:
    table = lake.table("sales.orders")
    files = [f.path for f in table.files()]
    some = DatasetLocation(table="sales.orders", files=files[1:])
    assert sorted(Dataset(lake=lake, location=some).to_arrow()["id"].to_pylist()) == [2, 3, 4, 5]
    assert Dataset(lake=lake, location=some).to_dataset().count_rows() == 4
    older = DatasetLocation(table="sales.orders", files=files[1:], version=1)
    with pytest.raises(lw.errors.InvalidInput, match="not a file of version 1"):
        Dataset(lake=lake, location=older).to_arrow()
    narrowed = Dataset(lake=lake, location=some)
    wrong = DatasetLocation(table="sales.orders", files=["nothing.parquet"])
    with pytest.raises(lw.errors.InvalidInput, match="not a file"):
        Dataset(lake=lake, location=wrong).to_arrow(where="id = 77")
    with pytest.raises(lw.errors.UnsupportedFeature, match="only for reading"):
        narrowed.write([{"id": 1, "amount": 1}])


def test_rows_are_written_as_the_registry_says(datasets: Datasets, lake: lw.Lake) -> None:
    done = datasets["orders"].write([{"id": 0, "amount": 7}, {"id": 9, "amount": 90}])
    assert done.versions == {"sales.orders": 4}
    assert lake.table("sales.orders").count() == 7

    rows = pa.table({"id": [1], "amount": [5]})
    datasets["new"].write(rows, message="first", properties={"job": "j1"})
    newest = lake.table("gold.new").history(limit=1)[0]
    assert (newest.message, newest.properties) == ("first", {"job": "j1"})
    assert lake.table("gold.new").format == "iceberg"
    with pytest.raises(lw.errors.ConstraintViolation):
        datasets["new"].write(pa.table({"id": [1], "amount": [-5]}))


@pytest.mark.parametrize("made", [True, False], ids=["exists", "missing"])
@pytest.mark.parametrize("mode", ["append", "overwrite", "error", "ignore"])
def test_each_mode_on_a_table_that_exists_and_one_that_does_not(
    lake: lw.Lake, mode: str, made: bool
) -> None:
    place = DatasetLocation(table="gold.t")
    found = Dataset(lake=lake, location=place, write_options=WriteOptions(mode=mode))
    if made:
        lake.create("gold.t", "id int64").append([{"id": 1}])
    if made and mode == "error":
        with pytest.raises(lw.errors.AlreadyExists, match=r"gold\.t"):
            found.write(pa.table({"id": [2]}))
    else:
        found.write(pa.table({"id": [2]}))
    wanted = {"append": [1, 2], "overwrite": [2], "error": [1], "ignore": [1]}
    assert sorted(found.to_arrow()["id"].to_pylist()) == (wanted[mode] if made else [2])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "either"),
        ({"table": "t", "path": "p"}, "either"),
        ({"table": "t", "version": 1, "timestamp": "2026-01-01"}, "a version and at a timestamp"),
        ({"table": "t", "format": "parquet"}, "format"),
        ({"path": "p", "files": ["x"]}, "Single files"),
        ({"table": "t", "storage_options": {"a": "b"}}, "options of its lake"),
        ({"table": "t", "scan": {"speed": "high"}}, "scan option 'speed'"),
        ({"table": "t", "colour": "red"}, "'colour'"),
        ({"table": "t", "write": {"mode": "replace"}}, "write mode 'replace'"),
        ({"table": "t", "write": {"mode": "upsert"}}, "key"),
        ({"table": "t", "retry": {"often": 3}}, "'often'"),
        ({"table": "t", "lock": "read"}, "lock"),
        ({"table": "t", "policy": {"nothing": 1}}, "nothing"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_bad_entries_are_refused_with_their_name(
    lake: lw.Lake, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(lw.errors.InvalidInput, match=f"Dataset bad: .*{said}"):
        Datasets(lake, {"bad": given})


def test_a_version_that_is_not_there_and_a_wrong_format_are_told(lake: lw.Lake) -> None:
    far = DatasetLocation(table="sales.orders", version=99)
    with pytest.raises(lw.errors.VersionNotFound):
        Dataset(lake=lake, location=far).to_arrow()
    other = DatasetLocation(table="sales.orders", format="iceberg")
    with pytest.raises(lw.errors.InvalidInput, match="format delta"):
        Dataset(lake=lake, location=other).to_arrow()
    with pytest.raises(lw.errors.NotFound, match="nobody"):
        Datasets(lake)["nobody"]


@pytest.mark.parametrize("mode", ["ignore", "error", "append"])
@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_a_first_write_that_fails_leaves_no_table(lake: lw.Lake, mode: str, format_: str) -> None:
    entry = {
        "table": "n",
        "write": {"mode": mode, "format": format_},
        "constraints": {"positive": "a > 0"},
        "policy": {"target_file_size": "64MB"},
    }
    found = Datasets(lake, {"d": entry})["d"]
    with pytest.raises(lw.errors.ConstraintViolation):
        found.write(pa.table({"a": [-1]}))
    assert [t.name for t in lake.tables()] == ["sales.orders"]
    found.write(pa.table({"a": [1]}))
    table = lake.table("n")
    assert table.to_arrow().to_pylist() == [{"a": 1}]
    assert dict(table.definition.constraints) == {"positive": "a > 0"}
    assert lake.policy("n").policy.target_file_size == 64 * 2**20


@pytest.mark.parametrize(("mode", "kept"), [("ignore", [7]), ("error", [7]), ("append", [7, 1])])
def test_a_table_that_another_process_makes_meanwhile_is_seen(
    lake: lw.Lake, mode: str, kept: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = {"table": "n", "write": {"mode": mode}, "constraints": {"positive": "a > 0"}}
    found = Datasets(lake, {"d": entry})["d"]
    exists = Dataset._exists

    def between(own: Dataset, name: str) -> bool:
        monkeypatch.undo()
        answer = exists(own, name)
        lake.create("n", "a int64").append([{"a": 7}])
        return answer

    monkeypatch.setattr(Dataset, "_exists", between)
    if mode == "error":
        with pytest.raises(lw.errors.AlreadyExists):
            found.write(pa.table({"a": [1]}))
    else:
        found.write(pa.table({"a": [1]}))
    assert lake.table("n").to_arrow()["a"].to_pylist() == kept


def test_an_arrow_dataset_has_the_columns_and_rows_of_the_location(datasets: Datasets) -> None:
    found = datasets["first"].to_dataset()
    assert (found.schema.names, found.count_rows()) == (["id"], 0)
    lake = datasets["first"].lake
    place = DatasetLocation(table="sales.orders", columns=["amount"], where="id > 1 and id < 5")
    found = Dataset(lake=lake, location=place).to_dataset()
    assert found.to_table() == Dataset(lake=lake, location=place).to_arrow()
    assert sorted(found.to_table()["amount"].to_pylist()) == [20, 30, 40]
    kept = found.to_table(filter=pc.field("amount") > 20)["amount"].to_pylist()
    assert sorted(kept) == [30, 40]
    assert sum(part.scanner().count_rows() for part in found.get_fragments()) == 3
    wrong = DatasetLocation(table="sales.orders", columns=["nope"])
    with pytest.raises(lw.errors.InvalidInput, match="nope"):
        Dataset(lake=lake, location=wrong).to_dataset()
