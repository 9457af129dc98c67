"""Tables in a user's own context of DataFusion, and the record of the way that was taken."""

from __future__ import annotations

import gc
from collections.abc import Generator
from pathlib import Path

import pyarrow as pa
import pytest
from datafusion import SessionContext

import lakeward as lw
from lakeward.integrations.datafusion import register, register_changes
from lakeward.integrations.datasets import DatasetLocation, ScanOptions


@pytest.fixture
def lake(tmp_path: Path) -> Generator[lw.Lake]:
    """A lake with a partitioned table of two files."""
    with lw.open(tmp_path / "lake") as lake:
        table = lake.create("t", "id int64, name string, day int32", partition_by=["day"])
        for day in (1, 2):
            table.append([{"id": 10 * day + n, "name": f"n{n}", "day": day} for n in range(2)])
        yield lake


def _ids(context: SessionContext, query: str = "SELECT id FROM t ORDER BY id") -> list[int]:
    found: list[int] = pa.table(context.sql(query))["id"].to_pylist()
    return found


def test_the_files_of_a_version_are_read_by_datafusion_itself(lake: lw.Lake) -> None:
    context = SessionContext()
    done = register(context, "t", lake.table("t"))
    gc.collect()
    assert (done.way, done.files, done.version) == ("parquet", 2, 2)
    assert _ids(context) == [10, 11, 20, 21]
    assert "parquet" in str(context.sql("SELECT id FROM t").execution_plan())
    register(context, "before", lake.table("t").at(version=1))
    assert _ids(context, "SELECT id FROM before ORDER BY id") == [10, 11]
    assert done.to_json()["reason"] == done.reason


@pytest.mark.parametrize("why", ["deleted", "altered", "empty"])
def test_each_fallback_is_recorded_with_its_reason(lake: lw.Lake, why: str) -> None:
    table, wanted = lake.table("t"), [10, 11, 20, 21]
    said = {"deleted": "deleted", "altered": "altered", "empty": "no file"}[why]
    if why == "deleted":
        table = lake.create("v", "id int64", properties={"delta.enableDeletionVectors": "true"})
        table.append([{"id": n} for n in range(1000)])
        table.delete(where="id >= 998")
        wanted = list(range(998))
    elif why == "altered":
        table.alter().add_column("more", "string").commit()
    else:
        table, wanted = lake.create("e", "id int64"), []
    context = SessionContext()
    done = register(context, "t", table)
    assert done.way == "dataset"
    assert said in done.reason
    assert _ids(context) == wanted
    with pytest.raises(lw.errors.UnsupportedFeature, match=said):
        register(context, "u", table, scan={"file_name_column": "file"})


def test_a_delta_table_at_a_path_comes_by_the_provider_of_delta_rs(lake: lw.Lake) -> None:
    context = SessionContext()
    path = lake.table("t").location.removeprefix("file://")
    done = register(context, "t", DatasetLocation(path=path, version=1))
    assert (done.way, done.version) == ("provider", 1)
    assert _ids(context) == [10, 11]


def test_scan_options_are_in_effect_and_recorded(lake: lw.Lake) -> None:
    context = SessionContext()
    table = lake.table("t")
    options = ScanOptions(file_name_column="file", view_types=True, pruning=False)
    done = register(context, "t", table, scan=options)
    assert done.scan["file_name_column"] == "file"
    rows = pa.table(context.sql("SELECT id, name, file FROM t ORDER BY id"))
    assert rows.schema.field("name").type == pa.string_view()
    names = [Path(f).name for f in rows["file"].to_pylist()]
    by_day = {f.partition[3]: Path(f.path).name for f in table.files()}
    assert names == [by_day[1], by_day[1], by_day[2], by_day[2]]
    as_text = pa.schema([("id", pa.string())])
    register(context, "s", table, scan={"schema": as_text})
    assert pa.table(context.sql("SELECT * FROM s")).schema.names == ["id"]


def test_change_data_is_registered_too(lake: lw.Lake) -> None:
    lake.table("t").delete(where="id = 10")
    context = SessionContext()
    done = register_changes(context, "c", lake.table("t"), since=3)
    assert done.way == "dataset"
    query = "SELECT id FROM c WHERE _change_type = 'delete'"
    assert _ids(context, query) == _ids(context, query) == [10]


def test_bad_input_is_refused(lake: lw.Lake) -> None:
    context = SessionContext()
    table = lake.table("t")
    with pytest.raises(lw.errors.InvalidInput, match="'speed'"):
        register(context, "t", table, scan={"speed": 1})
    with pytest.raises(lw.errors.InvalidInput, match="lake"):
        register(context, "t", DatasetLocation(table="t"))
    with pytest.raises(lw.errors.InvalidInput, match="not a file of version"):
        register(context, "t", DatasetLocation(table="t", files=["x"]), lake=lake)
    with pytest.raises(lw.errors.InvalidInput, match="'name'"):
        register(context, "t", table, scan={"file_name_column": "name"})
    with pytest.raises(lw.errors.InvalidInput, match="lacks"):
        register(context, "t", table, scan={"schema": pa.schema([("x", pa.int64())])})
    with pytest.raises(lw.errors.StorageError, match="cannot be read"):
        register(context, "t", DatasetLocation(path="/nowhere/at/all"))
    assert not context.table_exist("t")
