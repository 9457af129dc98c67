"""Equality deletes of other engines: rows go by their values, if they were there before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, StructType

import lakeward as lw
from lakeward.integrations.datasets import Dataset, DatasetLocation
from tests.behaviour.iceberg.strangers import Stranger
from tests.behaviour.iceberg.theirs import their_catalog
from tests.behaviour.lakes import append, delete, ids
from tests.support.delete_files import data_files, delete_equal, delete_in_place
from tests.support.foreign_files import append_file, numbered

_SCHEMA = Schema(
    NestedField(1, "id", IntegerType(), required=False),
    NestedField(2, "name", StringType(), required=False),
    NestedField(3, "part", LongType(), required=False),
    NestedField(4, "s", StructType(NestedField(5, "x", LongType(), required=False))),
)
_STRUCT = pa.struct([numbered("x", pa.int64(), 5)])
_ARROW = pa.schema(
    [
        numbered("id", pa.int32(), 1),
        numbered("name", pa.string(), 2),
        numbered("part", pa.int64(), 3),
        numbered("s", _STRUCT, 4),
    ]
)
_BY_PART = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "part"))


def _rows(*numbers: int, part: int = 0) -> pa.Table:
    rows = [
        {"id": n, "name": f"n{n % 3}" if n % 4 else None, "part": part, "s": {"x": n}}
        for n in numbers
    ]
    return pa.Table.from_pylist(rows, _ARROW)


def _keys(**columns: list[Any]) -> pa.Table:
    fields = [_ARROW.field(n) for n in columns]
    return pa.table(list(columns.values()), schema=pa.schema(fields))


def _their_table(catalog: Any, **options: Any) -> Any:
    catalog.create_namespace_if_not_exists("shop")
    return catalog.create_table("shop.equal", _SCHEMA, **options)


def test_rows_go_by_their_values_and_later_rows_stay(
    one_lake: lw.Lake, one_stranger: Stranger, name: str, tmp_path: Path
) -> None:
    with their_catalog(tmp_path / "theirs") as theirs:
        made = _their_table(theirs)
        append_file(made, _rows(*range(1, 9)))
        table = one_lake.adopt(name, made.metadata_location)
        # The whole history is followed: the lake's own catalog has the table from here on.
        theirs_now = one_stranger.table(name)

    delete_equal(theirs_now, _keys(id=[3, 5, 99]), [1])
    append_file(theirs_now, _rows(3))
    assert ids(one_lake, name) == [1, 2, 3, 4, 6, 7, 8]
    delete_equal(theirs_now, _keys(name=[None], id=[4]), [1, 2])
    assert ids(one_lake, name) == [1, 2, 3, 6, 7, 8]
    delete_equal(theirs_now, _keys(name=[None]), [2])
    assert ids(one_lake, name) == [1, 2, 3, 6, 7]
    delete_equal(theirs_now, _keys(s=[{"x": 7}]), [5])
    assert ids(one_lake, name) == [1, 2, 3, 6]
    path = next(f.file_path for f in data_files(theirs_now) if f.record_count == 8)
    delete_in_place(theirs_now, {path: [0]})
    assert ids(one_lake, name) == [2, 3, 6]
    assert ids(one_lake, name, where="id < 4 AND name IS NOT NULL") == [2, 3]
    assert table.to_arrow(columns=["name"], where="id = 2").to_pylist() == [{"name": "n2"}]
    versions = [
        sorted(table.at(version=v.version).to_arrow()["id"].to_pylist())
        for v in reversed(table.history())
    ]
    assert versions == [
        [1, 2, 3, 4, 5, 6, 7, 8],
        [1, 2, 4, 6, 7, 8],
        [1, 2, 3, 4, 6, 7, 8],
        [1, 2, 3, 6, 7, 8],
        [1, 2, 3, 6, 7],
        [1, 2, 3, 6],
        [2, 3, 6],
    ]
    first = table.history()[-1].version
    changed = table.changes(since=first + 1).read_all().to_pylist()
    assert [(r["_commit_version"] - first, r["_change_type"], r["id"]) for r in changed] == [
        *((1, "delete", 3), (1, "delete", 5)),
        *((2, "insert", 3), (3, "delete", 4), (4, "delete", 8), (5, "delete", 7)),
        (6, "delete", 1),
    ]

    # What the lake writes again is later than the deletes, and stays for other readers.
    delete(one_lake, name, "id = 6")
    append(one_lake, name, _rows(5, 8))
    with one_lake.transaction() as tx:
        tx.update(name, set={"name": "'new'"}, where="id = 2")
    assert ids(one_lake, name) == [2, 3, 5, 8]
    delete(one_lake, name, "id = 3")
    assert ids(one_lake, name) == [2, 5, 8]


@pytest.mark.parametrize("partitioned", [True, False], ids=["by partition", "global"])
def test_deletes_apply_within_their_partition_or_everywhere(
    one_lake: lw.Lake, one_stranger: Stranger, name: str, tmp_path: Path, *, partitioned: bool
) -> None:
    with their_catalog(tmp_path / "theirs") as theirs:
        made = _their_table(theirs, partition_spec=_BY_PART)
        for part in (1, 2):
            append_file(made, _rows(1, 2, 3, part=part), partition=[part])
        if not partitioned:
            with made.update_spec() as update:
                update.remove_field("part")
            made.refresh()
        delete_equal(made, _keys(id=[2]), [1], partition=[1] if partitioned else [None])
        table = one_lake.adopt(name, made.metadata_location)

    found = sorted((r["part"], r["id"]) for r in table.to_arrow().to_pylist())
    expected = [(1, 1), (1, 3), (2, 1), (2, 2), (2, 3)]
    if not partitioned:
        expected.remove((2, 2))
    assert found == expected
    delete(one_lake, name, "id = 3 AND part = 1")
    found = sorted((r["part"], r["id"]) for r in table.to_arrow().to_pylist())
    assert found == [e for e in expected if e != (1, 3)]


def test_a_filesystem_for_data_files_does_not_read_delete_files(
    one_lake: lw.Lake, one_stranger: Stranger, name: str, tmp_path: Path
) -> None:
    with their_catalog(tmp_path / "theirs") as theirs:
        made = _their_table(theirs)
        append_file(made, _rows(*range(1, 5)))
        table = one_lake.adopt(name, made.metadata_location)
        theirs_now = one_stranger.table(name)
    delete_equal(theirs_now, _keys(id=[3]), [1])
    assert ids(one_lake, name) == [1, 2, 4]
    root = SubTreeFileSystem(table.location.removeprefix("file://"), LocalFileSystem())
    place = DatasetLocation(table=name, filesystem=root)
    found = Dataset(lake=one_lake, location=place).to_arrow()["id"].to_pylist()
    assert sorted(found) == [1, 2, 4]


def test_deletes_hold_after_columns_were_renamed_widened_and_dropped(
    one_lake: lw.Lake, name: str, tmp_path: Path
) -> None:
    with their_catalog(tmp_path / "theirs") as theirs:
        made = _their_table(theirs)
        append_file(made, _rows(*range(1, 9)))
        delete_equal(made, _keys(id=[1]), [1])
        delete_equal(made, _keys(name=["n2"]), [2])
        with made.update_schema() as update:
            update.update_column("id", LongType())
            update.rename_column("part", "name2")
            update.delete_column("name")
            update.add_column("late", StringType())
        wide = pa.schema([numbered("id", pa.int64(), 1)])
        delete_equal(made, pa.table({"id": [3]}, schema=wide), [1])
        late = pa.schema([numbered("late", pa.string(), 6), numbered("id", pa.int64(), 1)])
        delete_equal(made, pa.table({"late": [None, "x"], "id": [4, 6]}, schema=late), [6, 1])
        table = one_lake.adopt(name, made.metadata_location)

    # n2: 2, 5; and 8 has no name.
    assert ids(one_lake, name) == [6, 7, 8]
    assert table.to_arrow(where="name2 = 0 AND id < 8").num_rows == 2
