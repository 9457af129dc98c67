"""Which of a number of buckets a value falls into, for Iceberg and for Spark."""

from __future__ import annotations

import base64
import decimal
from typing import Final

from lakeward.model.murmur3 import SPARK_SEED, murmur3, spark_murmur3
from lakeward.model.types import Decimal, Primitive, Type
from lakeward.model.values import Value

POSITIVE: Final = 2**31 - 1
SHORT: Final = frozenset({"int8", "int16", "int32", "date"})
"""Types that are a word of four bytes to Spark; other numbers and times are two."""
LONG_DIGITS: Final = 18
"""Decimals of no more digits are a long to Spark."""
_WIDE: Final = decimal.Context(prec=100)


def iceberg_bucket(source: Type, value: Value, buckets: int) -> int | None:
    """The bucket of `bucket[N]`; a missing value has none."""
    if value is None:
        return None
    if isinstance(source, Decimal):
        data = _big_endian(unscaled(source, value))
    else:
        # Whole numbers, dates and timestamps all hash as longs, so that widening changes nothing.
        data = _bytes(source, value, 8)
    return (murmur3(data) & POSITIVE) % buckets


def spark_bucket(source: Type, value: Value, buckets: int) -> int:
    """The value of `pmod(hash(x), N)`; the hash of a missing value is its seed."""
    if value is None:
        return SPARK_SEED % buckets
    if isinstance(source, Decimal):
        number = unscaled(source, value)
        short = source.precision <= LONG_DIGITS
        data = number.to_bytes(8, "little", signed=True) if short else _big_endian(number)
    else:
        short = isinstance(source, Primitive) and source.name in SHORT
        data = _bytes(source, value, 4 if short else 8)
    return spark_murmur3(data) % buckets


def unscaled(source: Decimal, value: Value) -> int:
    """A decimal as a whole number of its smallest units."""
    return int(decimal.Decimal(str(value)).scaleb(source.scale, _WIDE))


def scaled(source: Decimal, units: int) -> str:
    """The neutral spelling of a whole number of a decimal's smallest units."""
    return f"{decimal.Decimal(units).scaleb(-source.scale, _WIDE):f}"


def _bytes(source: Type, value: Value, size: int) -> bytes:
    name = source.name if isinstance(source, Primitive) else ""
    if name == "string":
        return str(value).encode()
    if name == "binary":
        return base64.b64decode(str(value))
    return int(str(value)).to_bytes(size, "little", signed=True)


def _big_endian(number: int) -> bytes:
    """Two's complement in as few bytes as hold it."""
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)
