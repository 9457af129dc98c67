"""Delta files that hold a column as another type than the table says: read and filtered alike."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeward as lw
from tests.support.delta_log import Log, add

_MOMENTS: Final = [
    datetime(2020, 1, 1, tzinfo=UTC),
    datetime(2021, 1, 1, 0, 0, 0, 500_000, UTC),
    datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC),
]
_WALL: Final = [m.replace(tzinfo=None) for m in _MOMENTS]
_TEXTS: Final = ["a", "b", "c"]
_ON_TEXTS: Final = {"v = 'b'": [1], "v > 'a'": [1, 2], "v IN ('a', 'c')": [0, 2], "v < 'a'": []}
_ON_NUMBERS: Final = {"v = 2": [1], "v > 1": [1, 2], "v IN (1, 3)": [0, 2], "v > 3": []}
_ON_MOMENTS: Final = {
    "v = TIMESTAMP '2020-01-01 00:00:00'": [0],
    "v > TIMESTAMP '2020-06-01 00:00:00'": [1],
    "v < TIMESTAMP '1970-01-01 00:00:00'": [2],
    "v > TIMESTAMP '3000-01-01 00:00:00'": [],
}
_ON_WALL: Final = {k.replace("TIMESTAMP", "TIMESTAMP_NTZ"): v for k, v in _ON_MOMENTS.items()}
_CASES: Final[dict[str, tuple[str, pa.Array, dict[str, list[int]]]]] = {
    "large strings": ("string", pa.array(_TEXTS, pa.large_string()), _ON_TEXTS),
    "strings as views": ("string", pa.array(_TEXTS, pa.string_view()), _ON_TEXTS),
    "strings as dictionary": ("string", pa.array(_TEXTS).dictionary_encode(), _ON_TEXTS),
    "bytes of one length": (
        "binary",
        pa.array([b"a", b"b", b"c"], pa.binary(1)),
        {"v = X'62'": [1], "v > X'61'": [1, 2]},
    ),
    "narrow numbers": ("long", pa.array([1, 2, 3], pa.int32()), _ON_NUMBERS),
    "wide numbers": ("integer", pa.array([1, 2, 3], pa.int64()), _ON_NUMBERS),
    "numbers without sign": ("long", pa.array([1, 2, 3], pa.uint32()), _ON_NUMBERS),
    "milliseconds": ("timestamp", pa.array(_MOMENTS, pa.timestamp("ms", "UTC")), _ON_MOMENTS),
    "nanoseconds": ("timestamp", pa.array(_MOMENTS, pa.timestamp("ns", "UTC")), _ON_MOMENTS),
    "moments without zone": ("timestamp", pa.array(_WALL, pa.timestamp("us")), _ON_MOMENTS),
    "moments elsewhere": (
        "timestamp",
        pa.array(_MOMENTS, pa.timestamp("us", "America/New_York")),
        _ON_MOMENTS,
    ),
    "wall clocks with zone": (
        "timestamp_ntz",
        pa.array(_MOMENTS, pa.timestamp("us", "UTC")),
        _ON_WALL,
    ),
    "short decimals": (
        "decimal(10,2)",
        pa.array([Decimal("1.0"), Decimal("2.5"), Decimal("-3.2")], pa.decimal128(5, 1)),
        {"v = 2.5": [1], "v > 1": [1], "v < 0": [2]},
    ),
    "single floats": (
        "double",
        pa.array([1.0, 2.5, -3.0], pa.float32()),
        {"v = 2.5": [1], "v > 1": [1], "v < 0": [2]},
    ),
    "dates as milliseconds": (
        "date",
        pa.array([date(2020, 1, 1), date(2021, 1, 1), date(1969, 1, 1)], pa.date64()),
        {"v = DATE '2020-01-01'": [0], "v > DATE '2020-01-01'": [1]},
    ),
}


@pytest.mark.parametrize("case", _CASES)
def test_a_column_of_another_type_is_filtered_as_the_table_says(tmp_path: Path, case: str) -> None:
    kind, values, conditions = _CASES[case]
    log = Log(tmp_path / "t")
    pq.write_table(pa.table({"id": [0, 1, 2], "v": values}), log.root / "a.parquet")
    size = (log.root / "a.parquet").stat().st_size
    features = {"readerFeatures": ["timestampNtz"], "writerFeatures": ["timestampNtz"]}
    protocol: dict[str, Any] = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    columns = [("id", "long"), ("v", kind)]
    log.start(columns, {"add": add("a.parquet", size=size)}, protocol=protocol)
    with lw.open(tmp_path / "lake") as lake:
        table = lake.adopt("t", log.root)
        for condition, meant in conditions.items():
            found = table.to_arrow(columns=["id"], where=condition)["id"].to_pylist()
            assert (condition, found) == (condition, meant)
        for condition, meant in conditions.items():
            tx = lake.transaction()
            tx.delete("t", where=condition)
            left = tx.read("t").column("id").to_pylist()
            tx.rollback()
            assert (condition, left) == (condition, [n for n in range(3) if n not in meant])
