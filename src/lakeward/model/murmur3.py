"""Murmur3 of 32 bits, as the two formats hash values into buckets.

Iceberg uses the published algorithm with seed 0. Spark's `hash` starts from 42 and takes the bytes
that do not fill a word one by one, each as a word of its own, so that only values of whole words
hash like everybody else's.
"""

from __future__ import annotations

from typing import Final

SPARK_SEED: Final = 42
MASK: Final = 0xFFFFFFFF
WORD_FACTORS: Final = (0xCC9E2D51, 0x1B873593)
MIX_FACTOR: Final = 5
MIX_TERM: Final = 0xE6546B64
FINAL_FACTORS: Final = (0x85EBCA6B, 0xC2B2AE35)


def murmur3(data: bytes) -> int:
    """The published hash with seed 0, as a signed number."""
    whole = len(data) & ~3
    state = _words(data, whole, 0)
    if whole < len(data):
        state ^= _scrambled(int.from_bytes(data[whole:], "little"))
    return _finished(state, len(data))


def spark_murmur3(data: bytes, seed: int = SPARK_SEED) -> int:
    """What Spark's `hash` gives for text or bytes, and for numbers as their little-endian bytes."""
    whole = len(data) & ~3
    state = _words(data, whole, seed)
    for byte in data[whole:]:
        state = _mixed(state, _scrambled((byte ^ 0x80) - 0x80 & MASK))
    return _finished(state, len(data))


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
