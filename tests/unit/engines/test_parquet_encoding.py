"""Values that repeat are written as dictionaries, whole numbers that do not as differences."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.engines.arrow.parquet import ParquetOptions, encode, encoding_settings, has_dictionary
from lakeward.model.definition import Definition
from lakeward.model.schema import Schema

MANY = 20_000


def encoded(data: pa.Table) -> pq.ParquetFile:
    definition = Definition(Schema.of(data.schema))
    buffer, _ = encode(data, definition, {}, "a.parquet", ParquetOptions())
    return pq.ParquetFile(pa.BufferReader(buffer))


def dictionaries(file: pq.ParquetFile) -> set[str]:
    group = file.metadata.row_group(0)
    chunks = [group.column(i) for i in range(group.num_columns)]
    return {c.path_in_schema for c in chunks if c.has_dictionary_page}


def packed(file: pq.ParquetFile) -> set[str]:
    group = file.metadata.row_group(0)
    chunks = [group.column(i) for i in range(group.num_columns)]
    return {c.path_in_schema for c in chunks if "DELTA_BINARY_PACKED" in c.encodings}


def test_only_columns_that_repeat_get_a_dictionary() -> None:
    data = pa.table(
        {
            "id": pa.array(range(MANY), pa.int64()),
            "kind": pa.array([i % 5000 for i in range(MANY)], pa.int32()),
            "name": pa.array([f"name-{i % 300}" for i in range(MANY)]),
            "text": pa.array([f"text-{i}" for i in range(MANY)]),
            "gone": pa.nulls(MANY, pa.string()),
        }
    )

    file = encoded(data)

    assert dictionaries(file) == {"kind", "name"}
    assert file.read() == data


def test_whole_numbers_that_do_not_repeat_are_written_as_differences() -> None:
    data = pa.table(
        {
            "id": pa.array(range(MANY), pa.int64()),
            "kind": pa.array([i % 50 for i in range(MANY)], pa.int32()),
            "at": pa.array([i * 1_000_003 for i in range(MANY)], pa.timestamp("us")),
            "value": pa.array([i / 7 for i in range(MANY)], pa.float64()),
        }
    )

    file = encoded(data)

    assert packed(file) == {"id", "at"}
    assert file.read() == data


def test_few_rows_are_spelled_out() -> None:
    data = pa.table({"name": ["a"] * 100})

    file = encoded(data)

    assert dictionaries(file) == set()
    assert file.read() == data


def test_nested_columns_keep_their_dictionaries() -> None:
    data = pa.table({"tags": pa.array([["a", "b"]] * MANY), "id": pa.array(range(MANY))})

    assert encoding_settings(data) == {"use_dictionary": True}
    assert encoded(data).read().equals(data)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([Decimal(i) for i in range(MANY)], pa.decimal128(38, 2)),
        pa.array([i % 2 == 0 for i in range(MANY)]),
        pa.array(range(MANY), pa.int64()).cast(pa.timestamp("us", "UTC")),
        pa.array(range(MANY), pa.int32()).cast(pa.date32()),
        pa.array([str(i).encode() for i in range(MANY)], pa.binary()),
        pa.array([float(i) for i in range(MANY)], pa.float32()),
    ],
    ids=lambda v: str(v.type),
)
def test_every_type_can_be_sampled(values: pa.Array) -> None:
    data = pa.table({"a": values})

    assert encoded(data).read().column("a").combine_chunks() == values


def test_strings_of_a_file_are_known_to_be_a_dictionary_or_not() -> None:
    repeating = encoded(pa.table({"a": [f"name-{i % 300}" for i in range(MANY)]}))
    spelled_out = encoded(pa.table({"a": [f"name-{i}" for i in range(MANY)]}))

    assert has_dictionary(repeating.metadata.row_group(0).column(0))
    assert not has_dictionary(spelled_out.metadata.row_group(0).column(0))
