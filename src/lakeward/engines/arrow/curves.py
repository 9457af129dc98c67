"""Z-order and Hilbert curves: orders that keep rows close together by several columns at once.

Every column is reduced to ranks among quantiles of a sample, so that columns of any type and
distribution have equal weight. The ranks of a row become one number, its position on the curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Codes: TypeAlias = NDArray[np.uint64]
_BITS: Final = 16
"""The most bits that a column's rank has; the ranks of all columns together have at most 64."""


def rank_bits(columns: int) -> int:
    """Return how many bits of the position on the curve each column gets."""
    return min(_BITS, 64 // columns)


class Ranks:
    """Computes the ranks of one column's values among quantiles of a sample.

    A null is before every value, and NaN is after every number.
    """

    def __init__(self, sample: pa.ChunkedArray, bits: int) -> None:
        self._is_number = _is_number(sample.type)
        self._type = sample.type
        values = sample.drop_null()
        if self._is_number:
            found = np.unique(_numbers(values))
        else:
            found = pc.unique(values).take(pc.sort_indices(pc.unique(values)))
        most = 2**bits - 2
        if len(found) > most:
            places = np.linspace(0, len(found) - 1, most).astype(np.int64)
            found = found[places] if self._is_number else found.take(pa.array(places))
        self._bounds: Any = found

    def of(self, column: pa.ChunkedArray) -> Codes:
        """Return the ranks of values; 0 for null."""
        if self._is_number:
            numbers = _numbers(column)
            ranks = np.searchsorted(self._bounds, numbers, side="right").astype(np.uint64)
            ranks += np.uint64(1)
        else:
            ranks = self._sorted_ranks(column)
        if column.null_count:
            ranks[column.is_null().to_numpy()] = 0
        return ranks

    def _sorted_ranks(self, column: pa.ChunkedArray) -> Codes:
        """Return ranks from one sort of the bounds and the distinct values together."""
        encoded = column.combine_chunks()
        encoded = encoded.dictionary_encode() if not _is_dictionary(encoded.type) else encoded
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        values = encoded.dictionary
        both = pa.concat_arrays([self._bounds.cast(values.type), values])
        count = len(self._bounds)
        order = pc.sort_indices(both).to_numpy()
        is_bound = order < count
        # A bound that equals a value comes before it: the sort is stable.
        below = np.cumsum(is_bound).astype(np.uint64)
        ranks = np.empty(len(values), dtype=np.uint64)
        ranks[order[~is_bound] - count] = below[~is_bound] + np.uint64(1)
        places = encoded.indices.fill_null(0).to_numpy()
        return ranks[places] if len(values) else np.zeros(len(column), dtype=np.uint64)


def interleaved(ranks: Sequence[Codes], bits: int) -> Codes:
    """Return positions on the Z-order curve: the interleaved bits of all ranks, highest first."""
    out = np.zeros_like(ranks[0])
    width = len(ranks)
    if width == 2 and bits <= 16:
        return (_spread(ranks[0]) << np.uint64(1)) | _spread(ranks[1])
    for bit in range(bits):
        for place, rank in enumerate(ranks):
            one = (rank >> np.uint64(bit)) & np.uint64(1)
            out |= one << np.uint64(bit * width + width - 1 - place)
    return out


def hilbert(ranks: Sequence[Codes], bits: int) -> Codes:
    """Return positions on the Hilbert curve, by Skilling's transform (AIP 707, 2004)."""
    axes = [rank.copy() for rank in ranks]
    width = len(axes)
    mask = np.uint64(1 << (bits - 1))
    while mask > 1:
        below = mask - np.uint64(1)
        for place in range(width):
            is_set = (axes[place] & mask) != 0
            swapped = (axes[0] ^ axes[place]) & below
            axes[0] = np.where(is_set, axes[0] ^ below, axes[0] ^ swapped)
            if place:
                axes[place] = np.where(is_set, axes[place], axes[place] ^ swapped)
        mask >>= np.uint64(1)
    for place in range(1, width):
        axes[place] ^= axes[place - 1]
    flips = np.zeros_like(axes[0])
    mask = np.uint64(1 << (bits - 1))
    while mask > 1:
        flips = np.where((axes[-1] & mask) != 0, flips ^ (mask - np.uint64(1)), flips)
        mask >>= np.uint64(1)
    return interleaved([axis ^ flips for axis in axes], bits)


def _spread(rank: Codes) -> Codes:
    """Spread a 16-bit number: insert a zero before each bit."""
    out = rank.astype(np.uint64)
    for shift, mask in ((8, 0x00FF00FF), (4, 0x0F0F0F0F), (2, 0x33333333), (1, 0x55555555)):
        out = (out | (out << np.uint64(shift))) & np.uint64(mask)
    return out


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_date(kind)
        or types.is_timestamp(kind)
        or types.is_boolean(kind)
    )


def _is_dictionary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_dictionary(kind))


def _numbers(column: pa.ChunkedArray) -> NDArray[Any]:
    """Return a column as numpy numbers in the order of its values; nulls get any number."""
    kind, types = column.type, pa.types
    if types.is_date32(kind):
        column = column.cast(pa.int32())
    elif types.is_timestamp(kind) or types.is_date64(kind):
        column = column.cast(pa.int64())
    elif types.is_boolean(kind):
        column = column.cast(pa.uint8())
    if column.null_count:
        zero = pa.scalar(0, column.type)
        column = column.fill_null(zero)
    return np.asarray(column.to_numpy())
