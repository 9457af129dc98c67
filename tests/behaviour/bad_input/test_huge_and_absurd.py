"""Schemas and properties out of all proportion: refused quickly, or they simply work."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import InvalidInput, UnsupportedFeature
from tests.behaviour.lakes import append, unchanged

pytestmark = pytest.mark.before_the_store


def _deep(levels: int, wrap: Any) -> pa.DataType:
    kind = pa.int64()
    for _ in range(levels):
        kind = wrap(kind)
    return kind


_DEEP = {
    "lists": pa.list_,
    "structs": lambda kind: pa.struct([("part", kind)]),
    "maps": lambda kind: pa.map_(pa.string(), kind),
}


@pytest.mark.parametrize("shape", _DEEP)
def test_nesting_beyond_reason_is_refused(shared_lake: lw.Lake, name: str, shape: str) -> None:
    schema = pa.schema([("x", _deep(200, _DEEP[shape]))])

    with unchanged(shared_lake), pytest.raises(UnsupportedFeature, match="nested deeper") as caught:
        shared_lake.create(name, schema)
    assert caught.value.column.startswith("x")


@pytest.mark.parametrize("shape", _DEEP)
def test_nesting_within_reason_works(shared_lake: lw.Lake, name: str, shape: str) -> None:
    kind = _deep(20, _DEEP[shape])
    table = shared_lake.create(name, pa.schema([("id", pa.int64()), ("x", kind)]))
    append(shared_lake, name, pa.table({"id": [1], "x": pa.nulls(1, kind)}))

    assert table.to_arrow()["x"].to_pylist() == [None]


def test_too_many_columns_are_refused(shared_lake: lw.Lake, name: str) -> None:
    with unchanged(shared_lake), pytest.raises(InvalidInput, match="10001"):
        shared_lake.create(name, {f"c{n}": "int64" for n in range(10_001)})


def test_too_many_parts_are_refused(shared_lake: lw.Lake, name: str) -> None:
    parts = pa.struct([(f"p{n}", pa.int64()) for n in range(10_000)])

    with unchanged(shared_lake), pytest.raises(InvalidInput, match="10001"):
        shared_lake.create(name, pa.schema([("x", parts)]))


@pytest.mark.parametrize(
    "kind",
    [
        pa.uint64(),
        pa.time64("us"),
        pa.duration("s"),
        pa.timestamp("ns"),
        pa.timestamp("s"),
        pa.decimal256(50, 2),
        pa.decimal128(5, -2),
        pa.null(),
        pa.month_day_nano_interval(),
        pa.dense_union([pa.field("a", pa.int64())]),
        pa.list_(pa.uint32()),
        pa.struct([("a", pa.float16())]),
        pa.map_(pa.string(), pa.null()),
        pa.binary(16),
        pa.struct([]),
        pa.list_(pa.struct([])),
    ],
    ids=str,
)
def test_types_that_no_format_holds_are_refused_with_the_column(
    shared_lake: lw.Lake, name: str, kind: pa.DataType
) -> None:
    with unchanged(shared_lake), pytest.raises(UnsupportedFeature) as caught:
        shared_lake.create(name, pa.schema([("fine", pa.int64()), ("odd", kind)]))

    assert caught.value.column.startswith("odd")
    assert caught.value.hint


@pytest.mark.formats("delta")
@pytest.mark.parametrize(
    "properties",
    [
        {"delta.feature.deletionVectors": "supported"},
        {"delta.constraints.x": "id > 0"},
        {"delta.columnMapping.mode": "names"},
        {"delta.columnMapping.maxColumnId": "7"},
        {"delta.enableTypeWidening": "maybe"},
        {"delta.enableDeletionVectors": "perhaps"},
        {"delta.enableRowTracking": "perhaps"},
        {"delta.checkpointPolicy": "v3"},
        {"delta.appendOnly": "maybe"},
        {"delta.checkpointInterval": "-5"},
        {"delta.checkpointInterval": "ten"},
        {"delta.targetFileSize": "huge"},
        {"delta.targetFileSize": "-1"},
        {"delta.parquet.compression.codec": "lzma"},
    ],
    ids=str,
)
def test_properties_that_cannot_be_kept_are_refused(
    shared_lake: lw.Lake, name: str, properties: dict[str, str]
) -> None:
    with unchanged(shared_lake), pytest.raises(InvalidInput) as caught:
        shared_lake.create(name, {"id": "int64"}, properties=properties)
    assert caught.value.property in properties


@pytest.mark.parametrize("column", ["tags", "ratio", "bytes"])
def test_columns_that_cannot_partition_are_refused(
    shared_lake: lw.Lake, name: str, column: str
) -> None:
    schema = {"id": "int64", "tags": pa.list_(pa.string()), "ratio": "double", "bytes": "binary"}

    with unchanged(shared_lake), pytest.raises(InvalidInput) as caught:
        shared_lake.create(name, schema, partition_by=[column])
    assert caught.value.column == column


def test_one_very_long_value_works(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, {"id": "int64", "x": "string"})
    append(shared_lake, name, [{"id": 1, "x": "ü" * 3_000_000}])

    (row,) = table.to_arrow(where="x > 'ü'").to_pylist()
    assert len(row["x"]) == 3_000_000
    (file,) = table.files()
    assert file.file.stats is not None
    assert len(str(file.file.stats.maximum)) < 200


def test_long_messages_and_many_properties_work(shared_lake: lw.Lake, name: str) -> None:
    many = {f"key{n}": "v" * 100 for n in range(1000)}
    table = shared_lake.create(name, {"id": "int64"}, properties=many)
    with shared_lake.transaction(message="m" * 1_000_000) as tx:
        tx.append(name, [{"id": 1}])

    assert table.properties.items() >= many.items()
    assert len(table.history(limit=1)[0].message or "") == 1_000_000
