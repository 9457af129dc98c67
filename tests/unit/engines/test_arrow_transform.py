"""Transforms of whole columns are those of single values."""

from __future__ import annotations

import decimal
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeward.engines.arrow import transform as arrow_murmur3
from lakeward.engines.arrow.transform import transformed
from lakeward.errors import InvalidInput
from lakeward.model.bucket import murmur3, spark_murmur3
from lakeward.model.transform import Rules, Transform
from lakeward.model.types import Decimal, Primitive, Type, arrow_type
from lakeward.model.values import to_neutral

DAYS = st.integers(-719_162, 2_932_896)
MOMENTS = st.integers(-719_162 * 86_400_000_000, 2_932_897 * 86_400_000_000 - 1)
TEXTS = st.text(max_size=12)
TRANSFORMS = [
    *("identity", "year", "month", "day", "hour", "void"),
    *("bucket[1]", "bucket[7]", "bucket[2147483647]", "truncate[1]", "truncate[7]"),
]


def exact(kind: Decimal) -> st.SearchStrategy[Any]:
    # Away from the ends, where a multiple need not fit.
    most = 10**kind.precision // 10 * 9
    digits = st.integers(-most, most) | st.integers(-300, 300)
    context = decimal.Context(prec=60)
    return digits.map(lambda n: context.create_decimal(n).scaleb(-kind.scale, context))


def whole(name: str) -> st.SearchStrategy[int]:
    bits = int(name[3:])
    return st.integers(-(2 ** (bits - 1)) + 7, 2 ** (bits - 1) - 1) | st.integers(-20, 20)


KINDS: dict[str, tuple[Type, st.SearchStrategy[Any]]] = {
    **{n: (Primitive(n), whole(n)) for n in ("int8", "int16", "int32", "int64")},
    "date": (Primitive("date"), DAYS),
    "timestamp": (Primitive("timestamp"), MOMENTS),
    "timestamp_ntz": (Primitive("timestamp_ntz"), MOMENTS),
    "timestamp_ms": (Primitive("timestamp_ms"), MOMENTS.map(lambda n: n // 1000)),
    "string": (Primitive("string"), TEXTS),
    "binary": (Primitive("binary"), st.binary(max_size=12)),
    "short decimal": (Decimal(9, 2), exact(Decimal(9, 2))),
    "long decimal": (Decimal(38, 10), exact(Decimal(38, 10))),
}


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_columns_agree_with_single_values(data: st.DataObject, name: str) -> None:
    kind, values = KINDS[name]
    drawn = data.draw(st.lists(st.none() | values, max_size=8))
    # Enough of them that the hash takes words of all values at once.
    column = pa.array(drawn * 10, _storage(kind)).cast(arrow_type(kind))
    for transform in _possible(kind):
        found = transformed(transform, kind, pa.chunked_array([column, column]))
        result = transform.result(kind)
        assert found.type == arrow_type(result)
        expected = [transform.apply(kind, to_neutral(kind, v)) for v in column.to_pylist()]
        assert [to_neutral(result, v) for v in found.to_pylist()] == expected * 2


@settings(deadline=None)
@given(st.lists(st.binary(max_size=9), max_size=60), st.integers(0, 3))
def test_hashes_of_bytes_agree_with_single_ones(values: list[bytes], repeats: int) -> None:
    column = pa.array([v * (repeats + 1) for v in values], pa.binary())
    for spark, single in ((True, spark_murmur3), (False, murmur3)):
        found = arrow_murmur3.hash_bytes(column, spark=spark).view(pa.int32()).to_pylist()
        assert found == [single(v) for v in column.to_pylist()]


def test_a_few_long_values_among_many_short_ones() -> None:
    values = [b"x" * n for n in range(100)] + [b"y" * 5001, b"z" * 10_000]
    for spark, single in ((True, spark_murmur3), (False, murmur3)):
        found = arrow_murmur3.hash_bytes(pa.array(values), spark=spark).view(pa.int32())
        assert found.to_pylist() == [single(v) for v in values]


@pytest.mark.parametrize("rules", Rules)
@pytest.mark.parametrize("text", ["year", "month", "day", "hour"])
def test_moments_that_no_directory_can_name_are_refused(text: str, rules: Rules) -> None:
    column = pa.array([0, 2_932_897 * 86_400_000_000]).cast(pa.timestamp("us"))
    with pytest.raises(ValueError, match="outside the years 1 to 9999"):
        transformed(Transform.parse(text, rules), Primitive("timestamp_ntz"), column)


@pytest.mark.parametrize("name", ["int8", "int16", "int32", "int64"])
def test_numbers_without_a_multiple_below_them_are_refused(name: str) -> None:
    kind = Primitive(name)
    lowest = -(2 ** (int(name[3:]) - 1))
    column = pa.array([0, lowest], arrow_type(kind))
    with pytest.raises(ValueError, match="no multiple of 10 below it"):
        transformed(Transform("truncate", 10), kind, column)


def test_no_rows_have_no_values() -> None:
    for kind, _ in KINDS.values():
        for transform in _possible(kind):
            assert len(transformed(transform, kind, pa.array([], arrow_type(kind)))) == 0


def test_iceberg_and_its_own_library_agree() -> None:
    from pyiceberg_core import transform as theirs

    texts = pa.array(["", "a", "ab", "abc", "iceberg", "Zürich", None])
    longs = pa.array([0, 34, -1, 2**62, None])
    moments = pa.array([0, -1, 1_510_871_468_000_000, None]).cast(pa.timestamp("us", "+00:00"))
    for column, kind in ((texts, "string"), (longs, "int64")):
        ours = transformed(Transform("bucket", 16), Primitive(kind), column)
        assert ours.to_pylist() == theirs.bucket(column, 16).to_pylist()
    for name in ("year", "month", "day", "hour"):
        ours = transformed(Transform(name), Primitive("timestamp"), moments)
        assert ours.cast(pa.int32()).to_pylist() == (
            getattr(theirs, name)(moments).cast(pa.int32()).to_pylist()
        )


def _possible(kind: Type) -> list[Transform]:
    found = []
    for text in TRANSFORMS:
        for rules in Rules:
            transform = Transform.parse(text, rules)
            with suppress(InvalidInput):
                transform.check(kind, "x")
                found.append(transform)
    return found


def _storage(kind: Type) -> pa.DataType:
    name = kind.name if isinstance(kind, Primitive) else ""
    if name == "date":
        return pa.int32()
    return pa.int64() if name.startswith("timestamp") else arrow_type(kind)
