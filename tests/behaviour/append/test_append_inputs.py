"""Rows in every form that people have them in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lakeward as lw
from tests.behaviour.lakes import append, column, data_files
from tests.support.s3 import on_disk

_SCHEMA = pa.schema([("id", pa.int64()), ("note", pa.string()), ("day", pa.date32())])
_ROWS: list[dict[str, Any]] = [
    {"id": 1, "note": "one", "day": date(2026, 1, 1)},
    {"id": 2, "note": None, "day": None},
    {"id": 3, "note": "", "day": date(1, 1, 1)},
]
_TABLE = pa.Table.from_pylist(_ROWS, _SCHEMA)
_BATCHES = [_TABLE.slice(n, 1).combine_chunks().to_batches()[0] for n in range(3)]


class _Stream:
    """Whatever speaks the Arrow stream interface."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return _TABLE.__arrow_c_stream__(requested_schema)


class _Array:
    """Whatever speaks the Arrow array interface."""

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return _TABLE.combine_chunks().to_batches()[0].__arrow_c_array__(requested_schema)


def _generated() -> Iterator[pa.RecordBatch]:
    yield from _BATCHES


def _polars() -> pl.DataFrame:
    frame = pl.from_arrow(_TABLE)
    assert isinstance(frame, pl.DataFrame)
    return frame


_INPUTS: dict[str, Callable[[], Any]] = {
    "table": lambda: _TABLE,
    "batch": lambda: _TABLE.combine_chunks().to_batches()[0],
    "reader": lambda: pa.RecordBatchReader.from_batches(_SCHEMA, _BATCHES),
    "list of batches": lambda: _BATCHES,
    "list of tables": lambda: [_TABLE.slice(0, 2), _TABLE.slice(2)],
    "iterator of batches": _generated,
    "arrow stream": _Stream,
    "arrow array": _Array,
    "pandas": lambda: _TABLE.to_pandas(),
    "pandas with an index": lambda: _TABLE.to_pandas().set_index(pd.Index(["x", "y", "z"])),
    "pandas with arrow types": lambda: _TABLE.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": _polars,
    "list of dicts": lambda: _ROWS,
    "iterator of dicts": lambda: iter(_ROWS),
    "tuple of dicts": lambda: tuple(_ROWS),
    "dicts without nulls": lambda: [
        {k: v for k, v in row.items() if v is not None} for row in _ROWS
    ],
    "dict of columns": lambda: {name: _TABLE[name].to_pylist() for name in _SCHEMA.names},
    "dict of arrow columns": lambda: {name: _TABLE[name] for name in _SCHEMA.names},
    "other order of columns": lambda: _TABLE.select(["day", "id", "note"]),
    "narrower types": lambda: _TABLE.set_column(0, "id", _TABLE["id"].cast(pa.int8())),
    "large strings": lambda: _TABLE.set_column(1, "note", _TABLE["note"].cast(pa.large_string())),
    "dictionaries": lambda: _TABLE.set_column(1, "note", _TABLE["note"].dictionary_encode()),
}


@pytest.fixture(scope="module")
def table_of_inputs(shared_lake: lw.Lake) -> str:
    name = "space.inputs"
    shared_lake.create(name, _SCHEMA)
    return name


@pytest.mark.parametrize("kind", _INPUTS)
def test_rows_arrive_as_they_were_given(
    shared_lake: lw.Lake, table_of_inputs: str, kind: str
) -> None:
    before = shared_lake.table(table_of_inputs).version

    version = append(shared_lake, table_of_inputs, _INPUTS[kind]())

    assert version == before + 1
    table = shared_lake.table(table_of_inputs)
    new = table.diff(before, version)
    assert new.rows_added == 3
    snapshot = table.at(version=version)
    ours = {f.path for f in new.added_files}
    assert ours == {f.path for f in snapshot.files() if f.added == version}
    assert snapshot.to_arrow().to_pylist()[-3:] == _ROWS


_EMPTY: dict[str, Any] = {
    "list": [],
    "table": _SCHEMA.empty_table(),
    "reader": pa.RecordBatchReader.from_batches(_SCHEMA, []),
    "iterator": iter(()),
    "columns": {name: [] for name in _SCHEMA.names},
    "pandas": _TABLE.slice(0, 0).to_pandas(types_mapper=pd.ArrowDtype),
    "polars": pl.DataFrame(
        schema={"id": pl.Int64, "note": pl.String, "day": pl.Date},
    ),
    "batches without rows": [_BATCHES[0].slice(0, 0)] * 3,
}


@pytest.mark.parametrize(
    "kind", ["list", "table", "columns", "pandas", "polars", "batches without rows"]
)
def test_no_rows_make_a_version_without_files(shared_lake: lw.Lake, name: str, kind: str) -> None:
    shared_lake.create(name, _SCHEMA)

    assert append(shared_lake, name, _EMPTY[kind]) == 1

    assert shared_lake.table(name).files() == []
    assert data_files(shared_lake, name) == set()
    assert shared_lake.table(name).to_arrow().num_rows == 0


def test_a_stream_without_batches_makes_a_version_without_files(
    shared_lake: lw.Lake, name: str
) -> None:
    shared_lake.create(name, _SCHEMA)

    append(shared_lake, name, pa.RecordBatchReader.from_batches(_SCHEMA, []))
    append(shared_lake, name, iter(()))

    assert shared_lake.table(name).version == 2
    assert shared_lake.table(name).files() == []


def test_batches_are_read_by_their_own_types(shared_lake: lw.Lake, name: str) -> None:
    # A reader takes batches of other types than its schema says, as Ibis makes them.
    shared_lake.create(name, {"id": "int64", "price": "double"})
    batch = pa.record_batch({"id": pa.array([1, 2], pa.int16()), "price": pa.array([5, 6])})
    schema = pa.schema({"id": pa.int64(), "price": pa.float64()})

    append(shared_lake, name, pa.RecordBatchReader.from_batches(schema, iter([batch])))

    rows = shared_lake.table(name).to_arrow().to_pylist()
    assert rows == [{"id": 1, "price": 5.0}, {"id": 2, "price": 6.0}]


def test_several_appends_in_one_transaction_are_one_version(
    shared_lake: lw.Lake, name: str
) -> None:
    shared_lake.create(name, {"id": "int64"})

    with shared_lake.transaction() as tx:
        for number in range(3):
            tx.append(name, [{"id": number}])

    table = shared_lake.table(name)
    assert table.version == 1
    assert column(table.to_arrow()) == [0, 1, 2]
    assert table.history(limit=1)[0].metrics["numOutputRows"] == 3


def test_rows_keep_their_order(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, {"id": "int64"})
    numbers = [n * 7919 % 1000 for n in range(1000)]

    append(shared_lake, name, {"id": numbers[:500]})
    append(shared_lake, name, {"id": numbers[500:]})

    assert shared_lake.table(name).to_arrow()["id"].to_pylist() == numbers


def test_a_large_append_is_split_at_the_target_file_size(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, {"id": "int64"}, policy={"target_file_size": "64kb"})

    append(shared_lake, name, {"id": range(50_000)})

    table = shared_lake.table(name)
    assert 4 <= len(table.files()) <= 10
    assert sum(f.rows or 0 for f in table.files()) == 50_000
    assert table.to_arrow()["id"].to_pylist() == list(range(50_000))


@pytest.mark.parametrize("codec", ["snappy", "zstd", "gzip", "none"])
def test_files_are_compressed_as_the_policy_says(
    shared_lake: lw.Lake, name: str, codec: str
) -> None:

    import pyarrow.parquet as pq

    table = shared_lake.create(name, {"id": "int64"}, policy={"compression": codec})
    append(shared_lake, name, {"id": range(1000)})

    (file,) = table.files()
    found = pq.read_metadata(on_disk(table.location) / file.path).row_group(0).column(0).compression
    assert found == ("UNCOMPRESSED" if codec == "none" else codec.upper())
    assert table.to_arrow().num_rows == 1000


def test_python_values_are_read_as_the_tables_types(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(
        name,
        {
            "id": "int32",
            "amount": pa.decimal128(10, 2),
            "at": "timestamp",
            "wall": "timestamp_ms_ntz",
            "tags": pa.map_(pa.string(), pa.int32()),
            "parts": pa.struct([("a", pa.float32())]),
        },
    )
    row = {
        "id": 1,
        "amount": Decimal("9.50"),
        "at": datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
        "wall": datetime(2026, 1, 2, 3, 4, 5, 6000),  # noqa: DTZ001  a wall clock has no zone
        "tags": {"x": 1},
        "parts": {"a": 0.5},
    }
    append(shared_lake, name, [row])

    (found,) = shared_lake.table(name).to_arrow().to_pylist()
    assert {**found, "tags": dict(found["tags"])} == row
