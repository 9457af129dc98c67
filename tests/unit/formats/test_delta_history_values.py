"""Partition values and statistics of strangers, as bounds that are safe to prune by."""

from __future__ import annotations

import base64
import decimal
import json
import struct
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeward.formats.delta.history import (
    read_history,
)
from lakeward.formats.delta.values import partition_text, partition_value
from lakeward.model.file import FileStats
from lakeward.model.schema import Schema
from lakeward.model.types import Field, Primitive
from lakeward.model.values import from_neutral, order_key
from lakeward.storage.local import LocalStorage
from tests.support.delta_log import (
    ID_NAME,
    Log,
    add,
)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("long", "-5", -5),
        ("boolean", "TRUE", True),
        ("date", "2020-02-29", date(2020, 2, 29)),
        ("timestamp", "2020-01-01 00:00:00", datetime(2020, 1, 1, tzinfo=UTC)),
        ("timestamp", "2020-01-01 00:00:00.5", datetime(2020, 1, 1, 0, 0, 0, 500_000, UTC)),
        ("timestamp", "2020-01-01T00:00:00.000001Z", datetime(2020, 1, 1, 0, 0, 0, 1, UTC)),
        ("timestamp", "2020-01-01T02:00:00+02:00", datetime(2020, 1, 1, tzinfo=UTC)),
        ("timestamp_ntz", "2020-01-01 00:00:00.000001", datetime(2020, 1, 1, 0, 0, 0, 1)),  # noqa: DTZ001
        ("decimal(38,2)", "-" + "9" * 36 + ".7", decimal.Decimal("-" + "9" * 36 + ".70")),
        ("double", "1.5", 1.5),
        ("string", "x", "x"),
        ("string", "", None),
        ("string", None, None),
        ("long", "", None),
        ("binary", "\u00e9", "\u00e9".encode()),
    ],
)
def test_partition_texts(
    log: Log, storage: LocalStorage, kind: str, text: str | None, value: Any
) -> None:
    file = add("a", partitionValues={"p": text})
    log.start([("p", kind), ("v", "long")], {"add": file}, partitionColumns=["p"])

    history = read_history(storage, "t")

    field = history.definitions[0][1].schema.field("p")
    found = history.files[0].partition[field.id]
    assert repr(from_neutral(field.type, found)) == repr(value)
    assert partition_value(field, partition_text(field, found)) == found


def test_a_missing_partition_value_is_null(log: Log, storage: LocalStorage) -> None:
    log.start([("p", "long"), ("v", "long")], {"add": add("a")}, partitionColumns=["p"])

    assert read_history(storage, "t").files[0].partition == {1: None}


@pytest.mark.parametrize(
    ("kind", "low", "high", "lowest", "highest"),
    [
        ("long", 1, 2, 1, 2),
        ("long", 1.5, "2", None, None),
        ("long", 10**30, True, None, None),
        ("integer", -5, 5, -5, 5),
        ("float", 0.1, 0.1, struct.unpack("f", struct.pack("f", 0.1))[0], None),
        ("float", 1e300, "Infinity", None, None),
        ("double", "-Infinity", "NaN", None, None),
        ("double", 1, 2, 1.0, None),
        ("string", "a", "b\U0010ffff", "a", "b\U0010ffff"),
        ("string", 1, None, None, None),
        ("boolean", False, True, None, None),
        ("binary", "a", "b", None, None),
        ("date", "1969-12-31", "2020-01-01", -1, 18262),
        ("date", "+10000-01-01", 5, None, None),
        ("timestamp", "1970-01-01T00:00:00.001Z", "1970-01-01T00:00:00.002Z", 1000, 2999),
        ("timestamp", "1970-01-01T01:00:00+01:00", "1970-01-01T00:00:00.000001Z", 0, 1),
        ("timestamp", 5, "soon", None, None),
        ("timestamp_ntz", "1970-01-01 00:00:00.001", "1970-01-01T00:00:00", 1000, 999),
        ("decimal(5,2)", 1.2, 3, "1.20", "3.00"),
        ("decimal(5,2)", 0.30000000000000004, 0.29999999999999999, "0.30", "0.30"),
        ("decimal(5,2)", "1.2", [], "1.20", None),
        ("decimal(38,0)", 10**37 + 1, 10**37 + 1, str(10**37 + 1), str(10**37 + 1)),
    ],
)
def test_statistics_of_strangers_become_outer_bounds(
    log: Log, storage: LocalStorage, kind: str, low: Any, high: Any, lowest: Any, highest: Any
) -> None:
    stats = {
        "numRecords": 3,
        "minValues": {"v": low},
        "maxValues": {"v": high},
        "nullCount": {"v": 1},
    }
    log.start([("v", kind)], {"add": add("a", stats=json.dumps(stats))})

    (file,) = read_history(storage, "t").files

    assert file.rows == 3
    assert file.file.stats is not None
    assert file.file.stats.nulls == {1: 1}
    assert file.file.stats.minimum.get(1) == lowest
    assert file.file.stats.maximum.get(1) == highest


def test_decimals_that_went_through_floating_point_are_widened(
    log: Log, storage: LocalStorage
) -> None:
    true = decimal.Decimal("99999999999999999999.99")
    stats = (
        f'{{"numRecords":1,"minValues":{{"v":{float(true)}}},"maxValues":{{"v":{float(true)}}}}}'
    )
    log.start([("v", "decimal(25,2)")], {"add": add("a", stats=stats)})

    (file,) = read_history(storage, "t").files

    assert file.file.stats is not None
    low, high = (
        decimal.Decimal(str(b[1])) for b in (file.file.stats.minimum, file.file.stats.maximum)
    )
    assert low <= true <= high
    assert high - low < 200_000


@pytest.mark.parametrize(
    "stats",
    [
        "",
        "x",
        "[]",
        "null",
        "[" * 5000,
        '{"minValues":{"id":1}',
        '"text"',
        '{"numRecords":NaN}',
        5,
        {},
    ],
)
def test_statistics_that_mean_nothing_are_left_out(
    log: Log, storage: LocalStorage, stats: Any
) -> None:
    log.start(ID_NAME, {"add": add("a", stats=stats)})

    (file,) = read_history(storage, "t").files

    assert file.rows is None
    assert file.file.stats is None


@pytest.mark.parametrize(
    "stats",
    [
        {"numRecords": -1, "minValues": [], "maxValues": "x", "nullCount": 5},
        {
            "numRecords": "3",
            "minValues": {"id": {"a": 1}},
            "nullCount": {"id": -1, "name": {"a": 1}},
        },
        {"minValues": {"unknown": 1, "id": None, "name": "\ud800"}},
    ],
)
@pytest.mark.parametrize("exactly", [False, True])
def test_bounds_that_mean_nothing_are_left_out(
    log: Log, storage: LocalStorage, stats: Any, exactly: bool
) -> None:
    columns = [*ID_NAME, ("d", "decimal(5,2)")] if exactly else ID_NAME
    log.start(columns, {"add": add("a", stats=json.dumps(stats))})

    (file,) = read_history(storage, "t").files

    assert file.rows is None
    assert (file.file.stats or FileStats()) == FileStats()


@given(
    st.decimals(
        allow_nan=False, allow_infinity=False, places=4, min_value=-(10**30), max_value=10**30
    )
)
@settings(max_examples=300)
def test_any_decimal_lies_between_bounds_read_from_its_float(value: decimal.Decimal) -> None:
    from lakeward.formats.delta.statistics import StatsReader, Trust
    from lakeward.model.types import Decimal

    kind = Decimal(38, 4)
    reader = StatsReader(Schema((Field(1, "v", kind),), 1))
    for text, exact in ((repr(float(value)), False), (str(value), False), (str(value), True)):
        source = f'{{"minValues":{{"v":{text}}},"maxValues":{{"v":{text}}}}}'
        _, stats = reader.text(source, Trust(exact=exact))
        assert stats is not None
        low, high = stats.minimum[1], stats.maximum[1]
        assert decimal.Decimal(str(low)) <= value <= decimal.Decimal(str(high))
        assert order_key(kind, low) <= order_key(kind, str(value)) <= order_key(kind, high)
        if exact:
            assert low == high == str(value)


def test_base64_of_the_lake_is_not_in_the_way() -> None:
    field = Field(1, "p", Primitive("binary"))
    assert partition_value(field, "ab") == base64.b64encode(b"ab").decode()


@pytest.mark.parametrize(
    ("engine", "highest"),
    [
        ("Apache-Spark/4.1.3 Delta-Lake/4.4.0", 2.0),
        ("lakeward 0.1.0", 2.0),
        ("delta-rs:py-1.6.6", None),
        (None, None),
    ],
)
def test_an_upper_bound_of_floats_is_kept_where_its_writer_orders_nan(
    log: Log, storage: LocalStorage, engine: str | None, highest: float | None
) -> None:
    stats = {"numRecords": 2, "minValues": {"v": 1.0}, "maxValues": {"v": 2.0}}
    file = {"add": add("a", stats=json.dumps(stats))}
    info = {"operation": "WRITE", "timestamp": 1} | ({"engineInfo": engine} if engine else {})
    log.start([("v", "double")]).commit(file, info=info)

    (found,) = read_history(storage, "t").files

    assert found.file.stats is not None
    assert found.file.stats.minimum == {1: 1.0}
    assert found.file.stats.maximum.get(1) == highest
