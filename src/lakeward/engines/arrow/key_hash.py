"""64-bit hashes of keys, the same on every machine and for every Arrow layout of a value.

Equal keys have equal hashes: 0.0 and -0.0 are equal, NaN equals itself, and integers hash by their
value whatever their width. A key with a null has no hash. Different keys may share a hash, so equal
hashes must be verified by comparing the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Hashes: TypeAlias = npt.NDArray[np.uint64]
_TEXTS: Final = (
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_large_string,
    pa.types.is_large_binary,
)
_WORD: Final = 8
_NARROW: Final = 32
_SEED: Final = 0x9E3779B97F4A7C15
_FIRST: Final = 0xBF58476D1CE4E5B9
_SECOND: Final = 0x94D049BB133111EB


def key_hashes(columns: Sequence[pa.ChunkedArray]) -> tuple[Hashes, npt.NDArray[np.bool_]]:
    """Return the hash of each row's key, and whether the row has one: no value is null."""
    count = len(columns[0])
    found = np.full(count, _SEED, dtype=np.uint64)
    whole = np.ones(count, dtype=bool)
    for column in columns:
        values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if values.null_count:
            whole &= np.asarray(values.is_valid())
        for words in _words(values):
            found = _mixed(found ^ words)
    return found, whole


def is_exact(types: Sequence[pa.DataType]) -> bool:
    """Whether different keys of some types always have different hashes.

    They do if the key is one number of at most 64 bits: mixing such a number is a bijection.
    """
    if len(types) != 1:
        return False
    (kind,) = types
    return not (any(is_kind(kind) for is_kind in _TEXTS) or pa.types.is_decimal(kind))


def _words(values: pa.Array) -> list[Hashes]:
    """Return the values as arrays of 64-bit numbers, which are hashed one after the other.

    Nulls become any number.
    """
    kind = values.type
    if any(is_kind(kind) for is_kind in _TEXTS):
        return [_of_bytes(values.cast(pa.large_binary()))]
    if pa.types.is_decimal(kind):
        wide = values if kind.bit_width == 128 else values.cast(pa.decimal128(38, kind.scale))
        halves = np.frombuffer(wide.buffers()[1], dtype=np.uint64)
        own = halves[2 * wide.offset : 2 * (wide.offset + len(wide))]
        return [own[0::2], own[1::2]]
    if pa.types.is_floating(kind):
        floats = np.asarray(values.cast(pa.float64()).fill_null(0.0)) + 0.0
        return [np.where(np.isnan(floats), np.nan, floats).view(np.uint64)]
    if pa.types.is_boolean(kind):
        values = values.cast(pa.int8())
    elif pa.types.is_temporal(kind):
        values = values.view(pa.int32() if kind.bit_width == _NARROW else pa.int64())
    return [np.asarray(values.cast(pa.int64()).fill_null(0)).view(np.uint64)]


def _of_bytes(values: pa.Array) -> Hashes:
    """Return a hash of the bytes of each value, computed eight bytes at a time over all rows."""
    _, offsets_buffer, data = values.buffers()
    count = len(values)
    every = np.frombuffer(offsets_buffer, dtype=np.int64)
    offsets = every[values.offset : values.offset + count + 1]
    starts, lengths = offsets[:-1], np.diff(offsets)
    found = lengths.astype(np.uint64)
    if not count or not lengths.any():
        return found
    padded = np.zeros(int(offsets[-1]) + _WORD, dtype=np.uint8)
    padded[: int(offsets[-1])] = np.frombuffer(data, dtype=np.uint8)[: int(offsets[-1])]
    # Every byte begins a word here; rows take the ones that begin where theirs do.
    words = np.ndarray(len(padded) - _WORD + 1, dtype="<u8", buffer=padded, strides=(1,))
    active = np.flatnonzero(lengths > 0)
    place = 0
    while len(active):
        taken = words[starts[active] + place]
        missing = np.clip(_WORD - (lengths[active] - place), 0, _WORD - 1).astype(np.uint64)
        mask = np.uint64(2**64 - 1) >> (missing * np.uint64(8))
        found[active] = _mixed(found[active] ^ (taken & mask))
        place += _WORD
        active = active[lengths[active] > place]
    return found


def _mixed(numbers: Hashes) -> Hashes:
    """Apply the finishing step of splitmix64, which is a bijection."""
    with np.errstate(over="ignore"):
        mixed = numbers + np.uint64(_SEED)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(_FIRST)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(_SECOND)
        return mixed ^ (mixed >> np.uint64(31))
