"""Computes partition transforms, and Murmur3 hashes, of whole Arrow columns.

The values equal those of `lakeward.model.transform` and `lakeward.model.bucket` for single values.
What Arrow has no kernel for is computed once for each distinct value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.model.bucket import (
    FINAL_FACTORS,
    MIX_FACTOR,
    MIX_TERM,
    POSITIVE,
    SHORT,
    SPARK_SEED,
    WORD_FACTORS,
    murmur3,
    spark_murmur3,
)
from lakeward.model.calendar import DAY, EPOCH_YEAR, FIRST_DAY, HOUR, LAST_DAY
from lakeward.model.transform import TIMES, Rules, Transform
from lakeward.model.types import Decimal, Primitive, Type, arrow_type
from lakeward.model.values import from_neutral, to_neutral

_INT64: Final = pa.int64()
_WORD: Final = 4
_FEW: Final = 32
"""Fewer values than this are hashed faster one by one than by Arrow."""


def transformed(transform: Transform, kind: Type, values: pa.ChunkedArray) -> pa.Array:
    """Compute the partition values of a column, in the Arrow type of the transform's result.

    Raises `ValueError`, with the reason, if a value has no partition value.
    """
    column = _single(values)
    out = arrow_type(transform.result(kind))
    name = kind.name if isinstance(kind, Primitive) else ""
    if transform.name == "void":
        return pa.nulls(len(column), out)
    if transform.name == "identity":
        return column
    if transform.name in TIMES:
        return _time(transform, kind, column).cast(out)
    if isinstance(kind, Decimal):
        found = _distinct(column, lambda some: _one_by_one(transform, kind, some, out))
    elif transform.name == "bucket":
        found = _bucket(transform, name, column)
    else:
        return _truncated(name, column, transform.width or 0)
    missing = transform.apply(kind, None)
    return found if missing is None else pc.fill_null(found, pa.scalar(missing, out))


def _truncated(name: str, column: pa.Array, width: int) -> pa.Array:
    if name == "string":
        return pc.utf8_slice_codeunits(column, 0, width)
    return pc.binary_slice(column, 0, width) if name == "binary" else _multiple(column, width)


def _time(transform: Transform, kind: Type, column: pa.Array) -> pa.Array:
    is_date = pa.types.is_date(column.type)
    ticks = column.cast(pa.int32()).cast(_INT64) if is_date else _microseconds(column)
    days = ticks if is_date else _floor(ticks, DAY)
    low, high = (pc.min_max(days)[end].as_py() for end in ("min", "max"))
    if low is not None and (low < FIRST_DAY or high > LAST_DAY):
        message = "a moment outside the years 1 to 9999"
        raise ValueError(message)
    if transform.name == "day":
        return days.cast(pa.int32()).cast(pa.date32())
    if transform.rules is Rules.SPARK and transform.name != "year":
        # Texts: few periods, many rows.
        period = days if is_date else _floor(ticks, HOUR if transform.name == "hour" else DAY)
        unit = 1 if is_date else HOUR if transform.name == "hour" else DAY

        def texts(found: pa.Array) -> pa.Array:
            return pa.array([transform.apply(kind, p * unit) for p in found.to_pylist()])

        return _distinct(period, texts)
    if transform.name == "hour":
        return _floor(ticks, HOUR)
    dates = days.cast(pa.int32()).cast(pa.date32())
    years = pc.year(dates)
    if transform.rules is Rules.SPARK:
        return years
    years = pc.subtract(years, _scalar(EPOCH_YEAR))
    if transform.name == "year":
        return years
    months = pc.subtract(pc.month(dates), _scalar(1))
    return pc.add(pc.multiply(years, _scalar(12)), months)


def _bucket(transform: Transform, name: str, column: pa.Array) -> pa.Array:
    spark = transform.rules is Rules.SPARK
    seed = SPARK_SEED if spark else 0
    if name in ("string", "binary"):
        hashes = _distinct(column.cast(pa.binary()), lambda found: hash_bytes(found, spark=spark))
    elif spark and name in SHORT:
        hashes = hash_ints(column.cast(pa.int32()), seed)
    elif name == "date":
        hashes = hash_longs(column.cast(pa.int32()).cast(_INT64), seed)
    elif name.startswith("timestamp"):
        hashes = hash_longs(_microseconds(column), seed)
    else:
        hashes = hash_longs(column.cast(_INT64), seed)
    width = transform.width or 1
    if not spark:
        positive = pc.bit_wise_and(hashes, pa.scalar(POSITIVE, pa.uint32()))
        return _remainder(positive.cast(_INT64), width).cast(pa.int32())
    return _remainder(hashes.view(pa.int32()).cast(_INT64), width).cast(pa.int32())


def _multiple(column: pa.Array, width: int) -> pa.Array:
    """Return the largest multiple of `width` that is not above the value."""
    wide = column.cast(_INT64)
    try:
        return pc.subtract_checked(wide, _remainder(wide, width)).cast(column.type)
    except pa.ArrowInvalid as error:
        message = f"a number that has no multiple of {width} below it in {column.type}"
        raise ValueError(message) from error


def _distinct(column: pa.Array, function: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Apply a function once to each distinct value; nulls remain null."""
    encoded = column.dictionary_encode()
    return function(encoded.dictionary).take(encoded.indices)


def _one_by_one(transform: Transform, kind: Type, values: pa.Array, out: pa.DataType) -> pa.Array:
    result = transform.result(kind)
    found = [transform.apply(kind, to_neutral(kind, v)) for v in values.to_pylist()]
    return pa.array([from_neutral(result, v) for v in found], out)


def _microseconds(column: pa.Array) -> pa.Array:
    try:
        return column.cast(pa.timestamp("us", column.type.tz)).cast(_INT64)
    except pa.ArrowInvalid as error:
        message = "a moment outside the years 1 to 9999"
        raise ValueError(message) from error


def _remainder(column: pa.Array, width: int) -> pa.Array:
    """Return the remainder, which is never negative."""
    return pc.subtract(column, pc.multiply(_floor(column, width), _scalar(width)))


def _floor(column: pa.Array, width: int) -> pa.Array:
    """Return the quotient rounded down; Arrow rounds towards zero."""
    quotient = pc.divide(column, _scalar(width))
    rest = pc.subtract(column, pc.multiply(quotient, _scalar(width)))
    return pc.subtract(quotient, pc.less(rest, _scalar(0)).cast(_INT64))


def _single(values: pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _scalar(value: int) -> Any:
    return pa.scalar(value, _INT64)


def hash_ints(values: pa.Array, seed: int) -> pa.Array:
    """Return the hashes of 32-bit numbers, as unsigned numbers."""
    words = values.view(pa.uint32())
    return _finished(_mixed(_word(seed), _scrambled(words)), _word(4))


def hash_longs(values: pa.Array, seed: int) -> pa.Array:
    """Return the hashes of 64-bit numbers, as unsigned numbers."""
    whole = values.view(pa.uint64())
    low = pc.bit_wise_and(whole, pa.scalar(0xFFFFFFFF, pa.uint64())).cast(pa.uint32())
    high = pc.shift_right(whole, pa.scalar(32, pa.uint64())).cast(pa.uint32())
    state = _mixed(_word(seed), _scrambled(low))
    return _finished(_mixed(state, _scrambled(high)), _word(8))


def hash_bytes(values: pa.Array, *, spark: bool) -> pa.Array:
    """Return the hashes of byte strings without nulls: as published, or as in Spark."""
    lengths = pc.binary_length(values)
    # The longest first, so that those that still have a word are always the first ones.
    order = pc.sort_indices(lengths, sort_keys=[("", "descending")])
    values, lengths = values.take(order), lengths.take(order)
    few, state = _words(values, lengths, SPARK_SEED if spark else 0)
    hash_one = spark_murmur3 if spark else murmur3
    single = [hash_one(v) & 0xFFFFFFFF for v in values.slice(0, few).to_pylist()]
    values, lengths = values.slice(few), lengths.slice(few)
    state = _tails_of_spark(values, lengths, state) if spark else _tails(values, lengths, state)
    many = _finished(state, lengths.cast(pa.uint32()))
    hashes = pa.concat_arrays([pa.array(single, pa.uint32()), many])
    back = pc.sort_indices(order)
    return hashes.take(back)


def _words(values: pa.Array, lengths: pa.Array, seed: int) -> tuple[int, pa.Array]:
    """Mix in all whole words.

    Return how many of the longest values, which are first, are left out, and the state of the
    others.
    """
    state = pa.repeat(_word(seed), len(values))
    done: list[pa.Array] = []
    position = 0
    left = _reaching(lengths, _WORD)
    while left >= _FEW:
        done.append(state.slice(left))
        here = pc.binary_slice(values.slice(0, left), position, position + _WORD)
        state = _mixed(state.slice(0, left), _scrambled(_as_words(here)))
        position += _WORD
        left = _reaching(lengths, position + _WORD)
    done.append(state.slice(left))
    return left, pa.concat_arrays(done[::-1])


def _reaching(lengths: pa.Array, length: int) -> int:
    """Return how many values have at least this length; lengths are descending."""
    return int(pc.sum(pc.greater_equal(lengths, pa.scalar(length, lengths.type))).as_py() or 0)


def _tails(values: pa.Array, lengths: pa.Array, state: pa.Array) -> pa.Array:
    """Mix in the bytes after the last whole word, padded with zeros to a word."""
    for count, mask in _by_rest(lengths):
        rest = pc.binary_slice(values.filter(mask), -count)
        full = pc.binary_join_element_wise(rest, pa.scalar(b"\0" * (_WORD - count)), b"")
        mixed = pc.bit_wise_xor(state.filter(mask), _scrambled(_as_words(full)))
        state = pc.replace_with_mask(state, mask, mixed)
    return state


def _tails_of_spark(values: pa.Array, lengths: pa.Array, state: pa.Array) -> pa.Array:
    """Mix in each byte after the last whole word as a signed word."""
    for count, mask in _by_rest(lengths):
        found = values.filter(mask)
        mixed = state.filter(mask)
        for position in range(-count, 0):
            byte = pc.binary_slice(found, position, position + 1 or None)
            signed = byte.cast(pa.binary(1)).view(pa.int8()).cast(pa.int32())
            mixed = _mixed(mixed, _scrambled(signed.view(pa.uint32())))
        state = pc.replace_with_mask(state, mask, mixed)
    return state


def _by_rest(lengths: pa.Array) -> list[tuple[int, pa.Array]]:
    rest = pc.bit_wise_and(lengths, pa.scalar(_WORD - 1, lengths.type))
    masks = [(count, pc.equal(rest, pa.scalar(count, rest.type))) for count in (1, 2, 3)]
    return [(count, mask) for count, mask in masks if pc.any(mask).as_py()]


def _as_words(values: pa.Array) -> pa.Array:
    return values.cast(pa.binary(_WORD)).view(pa.uint32())


def _scrambled(words: pa.Array) -> pa.Array:
    first, second = WORD_FACTORS
    return pc.multiply(_rotated(pc.multiply(words, _word(first)), 15), _word(second))


def _mixed(state: Any, words: pa.Array) -> pa.Array:
    turned = _rotated(pc.bit_wise_xor(state, words), 13)
    return pc.add(pc.multiply(turned, _word(MIX_FACTOR)), _word(MIX_TERM))


def _finished(state: pa.Array, lengths: Any) -> pa.Array:
    state = pc.bit_wise_xor(state, lengths)
    for shift, factor in zip((16, 13), FINAL_FACTORS, strict=True):
        state = pc.multiply(_folded(state, shift), _word(factor))
    return _folded(state, 16)


def _folded(state: pa.Array, bits: int) -> pa.Array:
    return pc.bit_wise_xor(state, pc.shift_right(state, _word(bits)))


def _rotated(words: pa.Array, bits: int) -> pa.Array:
    high = pc.shift_left(words, _word(bits))
    return pc.bit_wise_or(high, pc.shift_right(words, _word(32 - bits)))


def _word(value: int) -> pa.Scalar:
    return pa.scalar(value, pa.uint32())
