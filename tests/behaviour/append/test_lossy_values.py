"""Plain Python values that would not come back as they were given are refused."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import SchemaMismatch
from tests.behaviour.lakes import append, unchanged

pytestmark = pytest.mark.before_the_store

_WALL = datetime(2026, 1, 2, 3, 4, 5, 678901)  # noqa: DTZ001  a wall clock has no zone
_EAST = timezone(timedelta(hours=9))
_PART = pa.struct([("n", pa.int64())])

_BROKEN_TEXT = pa.Array.from_buffers(
    pa.string(), 1, [None, pa.array([0, 2], pa.int32()).buffers()[1], pa.py_buffer(b"\xff\xfe")]
)

_LOSSY: list[tuple[pa.DataType, Any]] = [
    (pa.int64(), 1.5),
    (pa.int64(), Decimal("1.5")),
    (pa.int64(), float("nan")),
    (pa.int64(), True),
    (pa.int64(), 2**63),
    (pa.int32(), 2**31),
    (pa.float32(), 1e300),
    (pa.float64(), True),
    (pa.float64(), 2**60 + 1),
    (pa.float64(), "1.5"),
    (pa.bool_(), 1),
    (pa.string(), b"bytes"),
    (pa.string(), 5),
    (pa.string(), "\ud800"),
    (pa.binary(), "text"),
    (pa.date32(), 5),
    (pa.date32(), _WALL),
    (pa.date32(), "2026-01-01"),
    (pa.timestamp("us"), 5),
    (pa.timestamp("us"), date(2026, 1, 1)),
    (pa.timestamp("us"), _WALL.replace(tzinfo=_EAST)),
    (pa.timestamp("us"), pd.Timestamp("2026-01-01 00:00:00.000000001")),
    (pa.timestamp("us"), pd.NaT),
    (pa.date32(), pd.NaT),
    (pa.timestamp("ms"), _WALL),
    (pa.timestamp("ms", "UTC"), _WALL.replace(tzinfo=UTC)),
    (pa.decimal128(10, 2), Decimal("1.005")),
    (pa.decimal128(10, 2), 1.5),
    (pa.decimal128(10, 2), Decimal("1e10")),
    (pa.decimal128(10, 2), True),
    (_PART, {"n": 1.5}),
    (_PART, {"m": 1}),
    (_PART, {"n": 1, "m": 2}),
    (_PART, 5),
    (pa.list_(pa.int64()), [1.5]),
    (pa.list_(pa.string()), "letters"),
    (pa.list_(pa.int64()), 5),
    (pa.list_(_PART), [{"n": 1.5}]),
    (pa.map_(pa.string(), pa.int64()), {"k": 1.5}),
    (pa.map_(pa.string(), pa.int64()), {1: 1}),
    (pa.map_(pa.string(), pa.int64()), {None: 1}),
    (pa.map_(pa.string(), pa.int64()), 5),
]


@pytest.mark.parametrize("form", ["rows", "columns"])
@pytest.mark.parametrize(("kind", "value"), _LOSSY, ids=[f"{k} {v!r}" for k, v in _LOSSY])
def test_values_that_do_not_fit_are_refused(
    shared_lake: lw.Lake, name: str, kind: pa.DataType, value: Any, form: str
) -> None:
    shared_lake.create(name, {"x": kind})
    data = [{"x": None}, {"x": value}] if form == "rows" else {"x": (None, value)}

    with unchanged(shared_lake), pytest.raises(SchemaMismatch) as caught:
        append(shared_lake, name, data)

    assert caught.value.table == name
    assert caught.value.column == "x"
    assert caught.value.hint


@pytest.mark.formats("delta")
@pytest.mark.parametrize(("kind", "value"), [(pa.int8(), 128), (pa.int16(), -(2**15) - 1)])
def test_narrow_numbers_that_do_not_fit_are_refused_where_the_format_has_them(
    shared_lake: lw.Lake, name: str, kind: pa.DataType, value: int
) -> None:
    shared_lake.create(name, {"x": kind})

    with unchanged(shared_lake), pytest.raises(SchemaMismatch):
        append(shared_lake, name, [{"x": value}])


_MOMENT = _WALL.replace(tzinfo=_EAST)
_UTC = _WALL.replace(tzinfo=UTC) - timedelta(hours=9)

_FITTING: list[tuple[pa.DataType, Any, Any]] = [
    (pa.int64(), 2.0, 2),
    (pa.int64(), Decimal(2), 2),
    (pa.float64(), 2, 2.0),
    (pa.float32(), 0.1, pa.scalar(0.1, pa.float32()).as_py()),
    (pa.date32(), datetime(2026, 1, 2), date(2026, 1, 2)),  # noqa: DTZ001  midnight is the day
    (pa.timestamp("us", "UTC"), _WALL, _WALL.replace(tzinfo=UTC)),
    (
        pa.timestamp("us", "UTC"),
        _WALL.replace(tzinfo=_EAST),
        _WALL.replace(tzinfo=UTC) - timedelta(hours=9),
    ),
    (pa.decimal128(10, 2), 3, Decimal("3.00")),
    (pa.decimal128(10, 2), Decimal("3.1"), Decimal("3.10")),
    (pa.binary(), bytearray(b"x"), b"x"),
    (pa.list_(pa.int64()), (1, None), [1, None]),
    (_PART, {}, {"n": None}),
]


@pytest.mark.parametrize(
    ("kind", "value", "found"), _FITTING, ids=[f"{k} {v!r}" for k, v, _ in _FITTING]
)
def test_values_that_mean_the_same_are_taken(
    shared_lake: lw.Lake, name: str, kind: pa.DataType, value: Any, found: Any
) -> None:
    table = shared_lake.create(name, {"x": kind})
    append(shared_lake, name, [{"x": value}])

    assert table.to_arrow()["x"].to_pylist() == [found]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int64(), pa.array([1.5])),
        (pa.int32(), pa.array([2**31], pa.int64())),
        (pa.int64(), pa.array([2**63], pa.uint64())),
        (pa.float32(), pa.array([0.1])),
        (pa.float64(), pa.array([2**53 + 1], pa.int64())),
        (pa.string(), pa.array([b"x"])),
        (pa.string(), pa.array([1])),
        (pa.date32(), pa.array([_WALL])),
        (pa.timestamp("us"), pa.array([_WALL], pa.timestamp("us", "UTC"))),
        (pa.timestamp("us", "UTC"), pa.array([1], pa.timestamp("ns"))),
        (pa.timestamp("ms"), pa.array([_WALL], pa.timestamp("us"))),
        (pa.timestamp("us"), pa.array([1], pa.timestamp("ns"))),
        (pa.decimal128(5, 2), pa.array([Decimal("1.234")])),
        (pa.decimal128(5, 2), pa.array([Decimal("1234")])),
        (_PART, pa.array([{"n": 1, "m": 2}])),
        (_PART, pa.array([{"m": 2}])),
        (pa.list_(pa.int64()), pa.array([1])),
        (pa.bool_(), pa.array([1])),
        (pa.string(), _BROKEN_TEXT),
    ],
    ids=range(19),
)
def test_arrow_columns_that_would_lose_something_are_refused(
    shared_lake: lw.Lake, name: str, kind: pa.DataType, values: pa.Array
) -> None:
    shared_lake.create(name, {"x": kind})

    with unchanged(shared_lake), pytest.raises(SchemaMismatch) as caught:
        append(shared_lake, name, pa.table({"x": values}))

    assert (caught.value.table, caught.value.column) == (name, "x")
    assert caught.value.hint


@pytest.mark.parametrize(
    ("kind", "given", "found"),
    [
        (pa.timestamp("us", "UTC"), _MOMENT, _UTC),
        (pa.list_(pa.timestamp("us", "UTC")), [_MOMENT, None], [_UTC, None]),
        (pa.struct({"at": pa.timestamp("us", "UTC")}), {"at": _MOMENT}, {"at": _UTC}),
        (pa.map_(pa.string(), pa.timestamp("us", "UTC")), {"a": _MOMENT}, [("a", _UTC)]),
    ],
    ids=["plain", "list", "struct", "map"],
)
def test_zones_count_where_arrow_was_told_to_ignore_them(
    shared_lake: lw.Lake,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    kind: pa.DataType,
    given: Any,
    found: Any,
) -> None:
    # As pandera and pyspark.pandas do when they are imported.
    monkeypatch.setenv("PYARROW_IGNORE_TIMEZONE", "1")
    table = shared_lake.create(name, {"x": kind})

    append(shared_lake, name, [{"x": given}, {"x": None}])

    assert table.to_arrow()["x"].to_pylist() == [found, None]
