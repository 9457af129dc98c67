"""Iceberg types that no table of ours has: they are read, and refused where rows are written."""

from __future__ import annotations

import json
import uuid
from datetime import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    FixedType,
    ListType,
    LongType,
    NestedField,
    TimestampNanoType,
    TimestamptzNanoType,
    TimeType,
    UUIDType,
)

import lakeward as lw
from lakeward.errors import InvalidExpression, UnsupportedFeature
from tests.behaviour.iceberg.theirs import their_catalog
from tests.behaviour.lakes import append, delete, ids, unchanged
from tests.support.foreign_files import append_file, numbered

_UUIDS = [uuid.UUID(int=n << 100) for n in (1, 2**27)]
_REFUSED = r"format version 3|Column (x|element) of table"
_COLUMNS: dict[str, tuple[Any, pa.DataType, list[Any], list[Any]]] = {
    "uuid": (UUIDType(), pa.binary(16), [u.bytes for u in _UUIDS], [str(u) for u in _UUIDS]),
    "fixed": (FixedType(3), pa.binary(3), [b"abc", b"\x00\xff1"], [b"abc", b"\x00\xff1"]),
    "time": (
        *(TimeType(), pa.time64("us"), [1, 86_399_999_999]),
        [time(0, 0, 0, 1), time(23, 59, 59, 999999)],
    ),
    "timestamp_ns": (TimestampNanoType(), pa.timestamp("ns"), [-1, 2**62], [-1, 2**62]),
    "timestamptz_ns": (
        *(TimestamptzNanoType(), pa.timestamp("ns", "UTC"), [-1, 2**62]),
        [-1, 2**62],
    ),
}


def _their_table(catalog: Any, kind: Any, *, nested: bool = False, **options: Any) -> Any:
    catalog.create_namespace_if_not_exists("shop")
    # pyiceberg writes no tables of version 3; the type is put into the document afterwards.
    known = LongType() if _is_version_3(kind) else kind
    column = ListType(3, known, element_required=False) if nested else known
    schema = Schema(
        NestedField(1, "id", LongType(), required=False),
        NestedField(2, "x", column, required=False),
    )
    return catalog.create_table("shop.odd", schema, **options)


def _is_version_3(kind: Any) -> bool:
    return isinstance(kind, TimestampNanoType | TimestamptzNanoType)


def _document(table: Any, kind: Any) -> str:
    """The table's metadata document, in which the column has its type."""
    place = Path(table.metadata_location.removeprefix("file://"))
    if not _is_version_3(kind):
        return str(place)
    document = json.loads(place.read_text())
    document |= {"format-version": 3, "next-row-id": 0}
    column = document["schemas"][0]["fields"][1]
    if isinstance(column["type"], dict):
        column["type"]["element"] = str(kind)
    else:
        column["type"] = str(kind)
    new = place.with_name("00099-version-3.metadata.json")
    new.write_text(json.dumps(document))
    return str(new)


def _plain(column: Any) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        return list(column.cast(pa.int64()).to_pylist())
    return list(column.to_pylist())


@pytest.mark.parametrize("kind", _COLUMNS)
def test_columns_of_other_types_are_read_and_not_written(
    one_lake: lw.Lake, name: str, tmp_path: Path, kind: str
) -> None:
    theirs_type, arrow, stored, expected = _COLUMNS[kind]
    fields = [numbered("id", pa.int64(), 1), numbered("x", arrow, 2)]
    rows = pa.table([[1, 2, 3], pa.array([*stored, None], arrow)], schema=pa.schema(fields))
    with their_catalog(tmp_path / "theirs") as theirs:
        made = _their_table(theirs, theirs_type)
        append_file(made, rows, statistics=False)
        table = one_lake.adopt(name, _document(made, theirs_type))

    assert _plain(table.to_arrow().sort_by("id")["x"]) == [*expected, None]
    assert ids(one_lake, name, where="x IS NULL") == [3]
    assert ids(one_lake, name, where="id > 1 AND x IS NOT NULL") == [2]
    if kind == "uuid":
        assert ids(one_lake, name, where=f"x = '{expected[1]}'") == [2]
        assert ids(one_lake, name, where=f"x > '{expected[0]}'") == [2]
    elif kind != "fixed":
        with pytest.raises(InvalidExpression, match="cannot be compared"):
            table.to_arrow(where="x > '1970-01-01'")
    with unchanged(one_lake), pytest.raises(UnsupportedFeature, match=_REFUSED):
        append(one_lake, name, [{"id": 4, "x": None}])
    with unchanged(one_lake), pytest.raises(UnsupportedFeature, match=_REFUSED):
        delete(one_lake, name, "id = 1")


@pytest.mark.parametrize("kind", _COLUMNS)
def test_such_types_are_read_inside_lists(
    one_lake: lw.Lake, name: str, tmp_path: Path, kind: str
) -> None:
    theirs_type, arrow, stored, expected = _COLUMNS[kind]
    lists = pa.list_(numbered("element", arrow, 3))
    fields = [numbered("id", pa.int64(), 1), numbered("x", lists, 2)]
    values = pa.array([[*stored, None], None], lists)
    with their_catalog(tmp_path / "theirs") as theirs:
        made = _their_table(theirs, theirs_type, nested=True)
        append_file(made, pa.table([[1, 2], values], schema=pa.schema(fields)), statistics=False)
        table = one_lake.adopt(name, _document(made, theirs_type))

    found = table.to_arrow().sort_by("id")["x"].combine_chunks()
    assert _plain(found.values) == [*expected, None]
    assert found.is_null().to_pylist() == [False, True]


@pytest.mark.parametrize("kind", ["uuid", "time"])
def test_such_types_are_read_as_partition_values(
    one_lake: lw.Lake, name: str, tmp_path: Path, kind: str
) -> None:
    theirs_type, _, stored, expected = _COLUMNS[kind]
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "x"))
    values = _UUIDS if kind == "uuid" else stored
    with their_catalog(tmp_path / "theirs") as theirs:
        made = _their_table(theirs, theirs_type, partition_spec=spec)
        for number, value in enumerate([*values, None]):
            rows = pa.table([[number]], schema=pa.schema([numbered("id", pa.int64(), 1)]))
            append_file(made, rows, partition=[value], statistics=False)
        table = one_lake.adopt(name, _document(made, theirs_type))

    assert _plain(table.to_arrow().sort_by("id")["x"]) == [*expected, None]
    assert ids(one_lake, name, where="x IS NULL") == [2]


def test_no_table_of_ours_is_made_with_such_types(one_lake: lw.Lake, name: str) -> None:
    for kind in ("time", "ns_timestamp", pa.time64("us"), pa.timestamp("ns")):
        with unchanged(one_lake), pytest.raises((UnsupportedFeature, lw.errors.InvalidInput)):
            one_lake.create(name, {"x": kind}, format="iceberg")
