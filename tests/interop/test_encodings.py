"""However our files store their columns, strangers read the same rows."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq

import lakeward as lw
from tests.interop.readers import Reader, as_ours

ROWS = 20_000
START = datetime(2024, 2, 29, 23, 59, 59, 123456, tzinfo=UTC)


def rows() -> pa.Table:
    """Whole numbers that do not repeat: near each other, far apart, downwards, and missing."""
    numbers = range(ROWS)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "far": pa.array([(-1) ** i * (i * 2_654_435_761_987 % 2**63) for i in numbers]),
            "down": pa.array([-i if i % 10 else None for i in numbers], pa.int32()),
            "day": pa.array([date(1900, 1, 1) + timedelta(days=i) for i in numbers]),
            "at": pa.array(
                [START + timedelta(microseconds=i * 7_919) for i in numbers],
                pa.timestamp("us", "UTC"),
            ),
            "name": pa.array([f"name-{i % 100}" for i in numbers]),
            "text": pa.array([f"text-{i}" for i in numbers]),
        }
    )


def test_columns_stored_as_differences_and_dictionaries_are_read_by_strangers(
    own_lake: lw.Lake, name: str, stranger: Reader
) -> None:
    table = own_lake.create(name, rows().schema)
    with own_lake.transaction() as tx:
        tx.append(name, rows())

    (file,) = table.files()
    group = pq.read_metadata(f"{table.location}/{file.path}").row_group(0)
    encodings = {group.column(i).path_in_schema: group.column(i).encodings for i in range(7)}
    packed = {n for n, used in encodings.items() if "DELTA_BINARY_PACKED" in used}
    assert packed == {"id", "far", "down", "day", "at"}

    found = as_ours(stranger.rows(table.location), rows().schema)
    assert found.sort_by("id") == rows()
    assert table.to_arrow() == rows()
