"""The bucket of a value, and 32-bit Murmur3, for Iceberg and for Spark.

Iceberg uses the published algorithm with seed 0. Spark's `hash` starts from 42 and mixes in each
trailing byte as a word, so only values whose size is a multiple of four bytes hash as published.
"""

from __future__ import annotations

import base64
import decimal
from typing import Final

from lakeward.model.types import Decimal, Primitive, Type
from lakeward.model.values import Value

SPARK_SEED: Final = 42
MASK: Final = 0xFFFFFFFF
WORD_FACTORS: Final = (0xCC9E2D51, 0x1B873593)
MIX_FACTOR: Final = 5
MIX_TERM: Final = 0xE6546B64
FINAL_FACTORS: Final = (0x85EBCA6B, 0xC2B2AE35)
POSITIVE: Final = 2**31 - 1
SHORT: Final = frozenset({"int8", "int16", "int32", "date"})
"""Types that Spark hashes as four bytes; other numbers and times as eight."""
LONG_DIGITS: Final = 18
"""Spark hashes decimals of at most so many digits as longs."""
_WIDE: Final = decimal.Context(prec=100)


def murmur3(data: bytes) -> int:
    """Return the published hash with seed 0, as a signed number."""
    whole = len(data) & ~3
    state = _words(data, whole, 0)
    if whole < len(data):
        state ^= _scrambled(int.from_bytes(data[whole:], "little"))
    return _finished(state, len(data))


def spark_murmur3(data: bytes, seed: int = SPARK_SEED) -> int:
    """Return Spark's `hash` of text, bytes, or the little-endian bytes of a number."""
    whole = len(data) & ~3
    state = _words(data, whole, seed)
    for byte in data[whole:]:
        state = _mixed(state, _scrambled((byte ^ 0x80) - 0x80 & MASK))
    return _finished(state, len(data))


def iceberg_bucket(source: Type, value: Value, buckets: int) -> int | None:
    """Return the bucket of a value by Iceberg's `bucket[N]`; None for null."""
    if value is None:
        return None
    if isinstance(source, Decimal):
        data = _big_endian(unscaled(source, value))
    else:
        # Integers, dates and timestamps all hash as longs, so that widening changes nothing.
        data = _bytes(source, value, 8)
    return (murmur3(data) & POSITIVE) % buckets


def spark_bucket(source: Type, value: Value, buckets: int) -> int:
    """Return the value of Spark's `pmod(hash(x), N)`; the hash of null is the seed."""
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
    """Return a decimal as a whole number of its smallest units."""
    return int(decimal.Decimal(str(value)).scaleb(source.scale, _WIDE))


def scaled(source: Decimal, units: int) -> str:
    """Return the decimal, as neutral text, that is `units` of the type's smallest units."""
    return f"{decimal.Decimal(units).scaleb(-source.scale, _WIDE):f}"


def _words(data: bytes, end: int, state: int) -> int:
    for start in range(0, end, 4):
        state = _mixed(state, _scrambled(int.from_bytes(data[start : start + 4], "little")))
    return state


def _scrambled(word: int) -> int:
    word = word * WORD_FACTORS[0] & MASK
    word = (word << 15 | word >> 17) & MASK
    return word * WORD_FACTORS[1] & MASK


def _mixed(state: int, word: int) -> int:
    state ^= word
    state = (state << 13 | state >> 19) & MASK
    return state * MIX_FACTOR + MIX_TERM & MASK


def _finished(state: int, length: int) -> int:
    state ^= length
    state = (state ^ state >> 16) * FINAL_FACTORS[0] & MASK
    state = (state ^ state >> 13) * FINAL_FACTORS[1] & MASK
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _bytes(source: Type, value: Value, size: int) -> bytes:
    name = source.name if isinstance(source, Primitive) else ""
    if name == "string":
        return str(value).encode()
    if name == "binary":
        return base64.b64decode(str(value))
    return int(str(value)).to_bytes(size, "little", signed=True)


def _big_endian(number: int) -> bytes:
    """Return the two's complement of a number in as few bytes as possible."""
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)
