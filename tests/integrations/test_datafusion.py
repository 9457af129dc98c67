"""Tables in a user's own context of DataFusion, and the record of the way that was taken."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datafusion import SessionContext

import lakeward as lw
from lakeward.integrations.datafusion import register, register_changes
from lakeward.integrations.datasets import DatasetLocation, ScanOptions
from lakeward.integrations.ibis import connect


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


@pytest.mark.parametrize("where", ["", "WHERE day = 1", "WHERE day > 0 AND name <> 'n0'"])
@pytest.mark.parametrize("by_ibis", [False, True])
def test_a_file_that_is_deleted_after_its_table_was_registered_is_missed(
    lake: lw.Lake, where: str, by_ibis: bool
) -> None:
    lake.create("plain", "id int64, name string, day int32")
    lake.create("one", "id int64, name string, day int32")
    for name, times in (("plain", 2), ("one", 1)):
        for _ in range(times):
            lake.table(name).append(lake.table("t").to_arrow())
    for name in ("t", "plain", "one"):
        query = f"SELECT id FROM {name} {where}"
        if by_ibis:
            run = connect(lake, engine="datafusion").sql(query).to_pyarrow
        else:
            context = SessionContext()
            register(context, name, lake.table(name))
            run = partial(_ids, context, query)
        for path in Path(lake.table(name).location).rglob("*.parquet"):
            path.unlink()
        with pytest.raises(Exception, match="not found"):
            run()


def _deleted(lake: lw.Lake) -> lw.Table:
    table = lake.create("v", "id int64", properties={"delta.enableDeletionVectors": "true"})
    table.append([{"id": n} for n in range(1000)])
    table.delete(where="id >= 998")
    return table


def _altered(lake: lw.Lake) -> lw.Table:
    table = lake.table("t")
    table.alter().add_column("more", "string").commit()
    return table


def _foreign(lake: lw.Lake) -> lw.Table:
    table = lake.create("v", "id int64, name string")
    rows = pa.table({"name": ["a", "b"], "id": [1, 2]})
    pq.write_table(rows, Path(table.location) / "given.parquet")
    with lake.transaction() as tx:
        tx.add_files("v", ["given.parquet"])
    return table


def _pattern(lake: lw.Lake) -> lw.Table:
    other = lw.open(Path(lake.warehouse).parent / "la[k]e")
    return _filled(other, "id int64", [{"id": 1}])


def _filled(lake: lw.Lake, schema: str, rows: list[dict[str, Any]], **given: Any) -> lw.Table:
    table = lake.create("v", schema, **given)
    table.append(rows)
    return table


_MAPPED = {"properties": {"delta.columnMapping.mode": "name"}}
_FALLBACKS: dict[str, Callable[[lw.Lake], lw.Table]] = {
    "rows of the files are deleted": _deleted,
    "the columns were altered": _altered,
    "no file is needed": lambda lake: lake.create("v", "id int64"),
    "values may be NaN": lambda lake: _filled(
        lake, "id int64, v double", [{"id": 1, "v": math.nan}]
    ),
    "columns have other names": lambda lake: _filled(lake, "id int64", [{"id": 1}], **_MAPPED),
    "type that engines read in another way": lambda lake: _filled(
        lake, "id int64, s struct<x: int64>", [{"id": 1, "s": {"x": 1}}]
    ),
    "a partition value cannot be the name": lambda lake: _filled(
        lake, "id int64, p string", [{"id": 1, "p": "a/ ="}], partition_by=["p"]
    ),
    "files of other writers differ": _foreign,
    "for a pattern": _pattern,
}


@pytest.mark.parametrize("why", _FALLBACKS)
def test_each_fallback_is_recorded_with_its_reason(lake: lw.Lake, why: str) -> None:
    table = _FALLBACKS[why](lake)
    context = SessionContext()
    done = register(context, "t", table)
    assert done.way == "dataset"
    assert why in done.reason
    assert done.to_json()["reason"] == done.reason
    assert _ids(context) == sorted(table.to_arrow()["id"].to_pylist())
    with pytest.raises(lw.errors.UnsupportedFeature, match=why):
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


def test_a_schema_and_the_column_of_file_names_go_together(lake: lw.Lake) -> None:
    context = SessionContext()
    options = {"file_name_column": "file", "schema": pa.schema([("id", pa.int64())])}
    register(context, "t", lake.table("t"), scan=options)
    rows = pa.table(context.sql("SELECT * FROM t ORDER BY id"))
    assert rows.schema.names == ["id", "file"]
    assert rows["id"].to_pylist() == [10, 11, 20, 21]
    assert len(set(rows["file"].to_pylist())) == 2


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
