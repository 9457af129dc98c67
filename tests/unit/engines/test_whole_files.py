"""Small files are read whole only if their columns are exactly the expected ones."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.engines.arrow.whole_files import whole_file


def field(name: str, kind: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})


NESTED = pa.struct([field("x", pa.int64(), 4), field("l", pa.list_(field("e", pa.int64(), 6)), 5)])
SCHEMA = pa.schema([field("a", pa.int64(), 1), field("b", pa.string(), 2), field("s", NESTED, 3)])
ROWS: list[dict[str, Any]] = [
    {"a": 1, "b": "x", "s": {"x": 1, "l": [1, 2]}},
    {"a": None, "b": None, "s": None},
]


def written(schema: pa.Schema) -> bytes:
    sink = pa.BufferOutputStream()
    rows = [{k: v for k, v in r.items() if k in schema.names} for r in ROWS]
    pq.write_table(pa.Table.from_pylist(rows, schema), sink, store_schema=False)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("by_id", [False, True])
def test_a_file_with_the_same_columns_is_read(by_id: bool) -> None:
    found = whole_file(written(SCHEMA), SCHEMA, by_id=by_id)

    assert found is not None
    assert found.to_pylist() == ROWS


@pytest.mark.parametrize(
    "other",
    [
        pa.schema([SCHEMA.field("b"), SCHEMA.field("a"), SCHEMA.field("s")]),
        pa.schema([SCHEMA.field("a"), SCHEMA.field("b")]),
        SCHEMA.set(0, field("a", pa.int32(), 1)),
        SCHEMA.set(0, field("A", pa.int64(), 1)),
    ],
    ids=["order", "missing", "type", "name"],
)
def test_a_file_with_other_columns_is_not(other: pa.Schema) -> None:
    assert whole_file(written(other), SCHEMA, by_id=False) is None


@pytest.mark.parametrize(
    "other",
    [
        SCHEMA.set(0, field("a", pa.int64(), 9)),
        SCHEMA.set(0, pa.field("a", pa.int64())),
        SCHEMA.set(2, field("s", pa.struct([field("x", pa.int64(), 9), NESTED.field(1)]), 3)),
    ],
    ids=["id", "none", "nested id"],
)
def test_ids_count_where_columns_are_found_by_them(other: pa.Schema) -> None:
    assert whole_file(written(other), SCHEMA, by_id=False) is not None
    assert whole_file(written(other), SCHEMA, by_id=True) is None
