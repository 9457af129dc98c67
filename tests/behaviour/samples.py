"""One column of every type that a table can have, with the values that go wrong first."""

from __future__ import annotations

import decimal
import math
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

_D = decimal.Decimal
_LONG: Final = "long ünïcode 🦆 " * 5000
_DUCK: Final = "🦆"


def _moment(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc,arg-type]


def _wall(*parts: int) -> datetime:
    return datetime(*parts)  # type: ignore[arg-type]  # noqa: DTZ001


_MOMENTS: Final = [
    (1, 1, 1),
    (1582, 10, 15, 0, 0, 0, 1000),
    (1969, 12, 31, 23, 59, 59, 999000),
    (1970, 1, 1),
    (2026, 2, 28, 12, 30, 45, 123000),
    (9999, 12, 31, 23, 59, 59, 999000),
]
_FINE: Final = [*_MOMENTS, (2026, 2, 28, 12, 30, 45, 123456), (9999, 12, 31, 23, 59, 59, 999999)]

VALUES: Final[Mapping[str, tuple[pa.DataType, list[Any]]]] = {
    "boolean": (pa.bool_(), [True, False]),
    "int8": (pa.int8(), [-(2**7), -1, 0, 2**7 - 1]),
    "int16": (pa.int16(), [-(2**15), -1, 0, 2**15 - 1]),
    "int32": (pa.int32(), [-(2**31), -1, 0, 2**31 - 1]),
    "int64": (pa.int64(), [-(2**63), -1, 0, 2**53 + 1, 2**63 - 1]),
    "float": (pa.float32(), [-math.inf, -1.5, -0.0, 0.0, 2**-149, 3.4028234663852886e38, math.inf]),
    "double": (pa.float64(), [-math.inf, -1e308, -0.0, 0.0, 5e-324, 0.1, 1e308, math.inf]),
    "double_nan": (pa.float64(), [math.nan, -1.0, 1.0]),
    "string": (
        pa.string(),
        ["", " ", "a", "A", "null", "'; DROP TABLE x; --", "a\x00b\n\t", _DUCK],
    ),
    "long_string": (pa.string(), [_LONG, _LONG + "a", "\U0010ffff" * 40, "x" * 33]),
    "binary": (pa.binary(), [b"", b"\x00", b"\xff\xfe", b"abc" * 1000]),
    "date": (pa.date32(), [date.min, date(1582, 10, 15), date(1970, 1, 1), date.max]),
    "timestamp": (pa.timestamp("us", "UTC"), [_moment(*m) for m in _FINE]),
    "timestamp_ntz": (pa.timestamp("us"), [_wall(*m) for m in _FINE]),
    "timestamp_ms": (pa.timestamp("ms", "UTC"), [_moment(*m) for m in _MOMENTS]),
    "timestamp_ms_ntz": (pa.timestamp("ms"), [_wall(*m) for m in _MOMENTS]),
    "decimal_small": (pa.decimal128(5, 2), [_D("-999.99"), _D("0.00"), _D("0.01"), _D("999.99")]),
    "decimal_middle": (pa.decimal128(18, 9), [_D("-123456789.123456789"), _D("0E-9"), _D(1) / 8]),
    "decimal_large": (pa.decimal128(38, 10), [_D("-" + "9" * 28 + ".9999999999"), _D("1E-10")]),
    "decimal_whole": (pa.decimal128(38, 0), [_D("9" * 38), _D(0)]),
    "struct": (
        pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.string())]))]),
        [{"a": 1, "b": {"c": "x"}}, {"a": None, "b": {"c": None}}, {"a": 2, "b": None}],
    ),
    "list": (pa.list_(pa.int64()), [[], [1], [None, 2, None]]),
    "list_of_lists": (pa.list_(pa.list_(pa.string())), [[], [[]], [None, ["a", None]]]),
    "map": (pa.map_(pa.string(), pa.int64()), [[], [("a", 1), ("b", None)]]),
    "deep": (
        pa.list_(
            pa.struct([("when", pa.timestamp("ms")), ("tags", pa.map_(pa.string(), pa.date32()))])
        ),
        [[], [{"when": _wall(2026, 1, 2), "tags": [("k", date(2026, 1, 2))]}, None]],
    ),
}
"""Arrow type and values of each kind; a null is added to all of them."""

NARROW: Final = ("int8", "int16")
"""Kinds that Iceberg has not."""

KINDS: Final = tuple(k for k in VALUES if k not in NARROW)
"""Kinds that tables of every format can have."""

PARTITIONING: Final = (
    "boolean",
    "int32",
    "int64",
    "string",
    "date",
    "timestamp",
    "timestamp_ntz",
    "timestamp_ms",
    "decimal_small",
    "decimal_large",
)
"""Kinds whose columns can partition a table."""


def sample(kind: str) -> pa.Table:
    """Rows numbered by `id` with a column `x` of a kind: each of its values, and a null."""
    arrow, values = VALUES[kind]
    every = [*values, None]
    numbers = pa.array(range(len(every)), pa.int64())
    return pa.table({"id": numbers, "x": pa.array(every, arrow)})


def partition_sample(kind: str) -> pa.Table:
    """The same without the empty text, which cannot name a partition."""
    data = sample(kind)
    return data.filter(pc.not_equal(data["x"], "").fill_null(True)) if kind == "string" else data


def everything(table_format: str) -> pa.Table:
    """A column of each kind that the format has, as many rows as the longest has values."""
    rows = max(len(values) for _, values in VALUES.values()) + 1
    columns = {"id": pa.array(range(rows), pa.int64())}
    for kind in VALUES if table_format == "delta" else KINDS:
        arrow, values = VALUES[kind]
        columns[kind] = pa.array((values + [None] * rows)[:rows], arrow)
    return pa.table(columns)


def exactly(value: Any) -> Any:
    """A value in a form where equal means the same: NaN equals itself, and 0.0 is not -0.0."""
    if isinstance(value, float):
        return ("float", value.hex())
    if isinstance(value, Mapping):
        return {k: exactly(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [exactly(v) for v in value]
    return value


def exact_rows(source: pa.Table) -> list[Any]:
    """The rows of a table by id, in the form of `exactly`."""
    return [exactly(row) for row in source.sort_by("id").to_pylist()]
