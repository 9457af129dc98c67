"""Bounds and partition values in Iceberg's own form, beside pyiceberg's."""

from __future__ import annotations

from decimal import Decimal as Number
from typing import Any

import pytest
from pyiceberg import conversions, types

from lakeward.formats.iceberg.values import from_bytes, from_tuple, to_bytes, to_tuple
from lakeward.model.types import Decimal, Primitive, Type
from lakeward.model.values import Value

_SHORT = Decimal(10, 2)
_LONG = Decimal(38, 10)

CASES: list[tuple[Type, types.PrimitiveType, Value, Any]] = [
    (Primitive("boolean"), types.BooleanType(), True, True),
    (Primitive("int32"), types.IntegerType(), -(2**31), -(2**31)),
    (Primitive("int64"), types.LongType(), 2**63 - 1, 2**63 - 1),
    (Primitive("double"), types.DoubleType(), -0.5, -0.5),
    (Primitive("string"), types.StringType(), "ünï🦆", "ünï🦆"),
    (Primitive("binary"), types.BinaryType(), "AP8=", b"\x00\xff"),
    (Primitive("date"), types.DateType(), -1, -1),
    (Primitive("timestamp"), types.TimestamptzType(), 1_700_000_000_123_456, 1_700_000_000_123_456),
    (_SHORT, types.DecimalType(10, 2), "-0.01", Number("-0.01")),
    (_SHORT, types.DecimalType(10, 2), "1.28", Number("1.28")),
    (
        _LONG,
        types.DecimalType(38, 10),
        f"-{'9' * 28}.9999999999",
        Number(f"-{'9' * 28}.9999999999"),
    ),
    (_LONG, types.DecimalType(38, 10), "0.0000000001", Number("0.0000000001")),
    (Decimal(38, 0), types.DecimalType(38, 0), "9" * 38, Number("9" * 38)),
]


@pytest.mark.parametrize(("kind", "theirs", "value", "meant"), CASES, ids=lambda v: str(v)[:24])
def test_a_bound_is_spelled_as_pyiceberg_spells_it_and_comes_back(
    kind: Type, theirs: types.PrimitiveType, value: Value, meant: Any
) -> None:
    spelled = to_bytes(kind, value)

    assert spelled == conversions.to_bytes(theirs, meant)
    assert from_bytes(kind, spelled) == value


@pytest.mark.parametrize(("kind", "theirs", "value", "meant"), CASES, ids=lambda v: str(v)[:24])
def test_a_partition_value_comes_back(
    kind: Type, theirs: types.PrimitiveType, value: Value, meant: Any
) -> None:
    assert to_tuple(kind, value) == meant
    assert from_tuple(kind, to_tuple(kind, value)) == value
