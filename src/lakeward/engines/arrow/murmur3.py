"""Murmur3 of whole Arrow columns, a word of all values at a time.

The same hashes as `lakeward.model.murmur3`, which says what they are, at the speed of Arrow's
kernels: their arithmetic on unsigned numbers wraps, as the hash wants it. Missing values stay
missing.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.model.murmur3 import (
    FINAL_FACTORS,
    MIX_FACTOR,
    MIX_TERM,
    SPARK_SEED,
    WORD_FACTORS,
    murmur3,
    spark_murmur3,
)

_WORD: Final = 4
_FEW: Final = 32
"""Values so few that looking at them one by one takes less time than asking Arrow."""


def of_ints(values: pa.Array, seed: int) -> pa.Array:
    """The hashes of numbers of 32 bits, as unsigned numbers."""
    words = values.view(pa.uint32())
    return _finished(_mixed(_scalar(seed), _scrambled(words)), _scalar(4))


def of_longs(values: pa.Array, seed: int) -> pa.Array:
    """The hashes of numbers of 64 bits, as unsigned numbers."""
    whole = values.view(pa.uint64())
    low = pc.bit_wise_and(whole, pa.scalar(0xFFFFFFFF, pa.uint64())).cast(pa.uint32())
    high = pc.shift_right(whole, pa.scalar(32, pa.uint64())).cast(pa.uint32())
    state = _mixed(_scalar(seed), _scrambled(low))
    return _finished(_mixed(state, _scrambled(high)), _scalar(8))


def of_bytes(values: pa.Array, *, spark: bool) -> pa.Array:
    """The hashes of byte strings of any length, none of them missing, as unsigned numbers.

    Args:
        values: A binary array.
        spark: Whether as Spark hashes, from its seed; otherwise as published, from 0.
    """
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
    """All whole words taken in; how many of the first values were left out for being few."""
    state = pa.repeat(_scalar(seed), len(values))
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
    """How many values are at least so long; they are the first ones."""
    return int(pc.sum(pc.greater_equal(lengths, pa.scalar(length, lengths.type))).as_py() or 0)


def _tails(values: pa.Array, lengths: pa.Array, state: pa.Array) -> pa.Array:
    """The bytes after the last whole word, as one word that zeros fill up."""
    for count, mask in _by_rest(lengths):
        rest = pc.binary_slice(values.filter(mask), -count)
        full = pc.binary_join_element_wise(rest, pa.scalar(b"\0" * (_WORD - count)), b"")
        mixed = pc.bit_wise_xor(state.filter(mask), _scrambled(_as_words(full)))
        state = pc.replace_with_mask(state, mask, mixed)
    return state


def _tails_of_spark(values: pa.Array, lengths: pa.Array, state: pa.Array) -> pa.Array:
    """The bytes after the last whole word, each as a word with a sign."""
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
    return pc.multiply(_rotated(pc.multiply(words, _scalar(first)), 15), _scalar(second))


def _mixed(state: Any, words: pa.Array) -> pa.Array:
    turned = _rotated(pc.bit_wise_xor(state, words), 13)
    return pc.add(pc.multiply(turned, _scalar(MIX_FACTOR)), _scalar(MIX_TERM))


def _finished(state: pa.Array, lengths: Any) -> pa.Array:
    state = pc.bit_wise_xor(state, lengths)
    for shift, factor in zip((16, 13), FINAL_FACTORS, strict=True):
        state = pc.multiply(_folded(state, shift), _scalar(factor))
    return _folded(state, 16)


def _folded(state: pa.Array, bits: int) -> pa.Array:
    return pc.bit_wise_xor(state, pc.shift_right(state, _scalar(bits)))


def _rotated(words: pa.Array, bits: int) -> pa.Array:
    high = pc.shift_left(words, _scalar(bits))
    return pc.bit_wise_or(high, pc.shift_right(words, _scalar(32 - bits)))


def _scalar(value: int) -> pa.Scalar:
    return pa.scalar(value, pa.uint32())
