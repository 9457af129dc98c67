"""Computes how the values of a column are distributed: shares of a few classes, for comparison.

Numbers and times have ten classes between quantiles; other values are assigned to classes by a
hash, so that no value of a row is kept.
"""

from __future__ import annotations

import zlib
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.engines.arrow.decimals import to_floating

_CLASSES: Final = 10
_HASHED: Final = 32


def distribution(values: pa.ChunkedArray, edges: list[float] | None) -> dict[str, Any]:
    """Return the share of values in each class, nulls last; `edges` are the class bounds to use."""
    total = len(values)
    numbers = _numbers(values)
    present = pc.drop_null(values if numbers is None else numbers)
    if numbers is None:
        counts = [0] * _HASHED
        for one in pc.value_counts(present.combine_chunks()).to_pylist():
            counts[zlib.crc32(str(one["values"]).encode()) % _HASHED] += one["counts"]
    else:
        if edges is None:
            parts = [number / _CLASSES for number in range(1, _CLASSES)]
            found = pc.quantile(present, q=parts).to_pylist() if len(present) else []
            edges = sorted({float(edge) for edge in found if edge is not None})
        below = [int(pc.sum(pc.less(present, edge)).as_py() or 0) for edge in edges]
        counts = [b - a for a, b in pairwise([0, *below, len(present)])]
    counts.append(total - len(present))
    return {"edges": edges, "shares": [count / total for count in counts] if total else []}


def distance(one: dict[str, Any], other: dict[str, Any]) -> float | None:
    """Return how far two distributions are apart, from 0 to 1.

    None if one of them is empty, or if they have different numbers of classes.
    """
    left, right = one["shares"], other["shares"]
    if not left or len(left) != len(right):
        return None
    return sum(abs(a - b) for a, b in zip(left, right, strict=True)) / 2


def _numbers(values: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Return the values as floats, NaN as null; None for types other than numbers and times."""
    kind = values.type
    if pa.types.is_floating(kind):
        return pc.if_else(pc.is_nan(values), pa.scalar(None, kind), values).cast(pa.float64())
    if pa.types.is_decimal(kind):
        return to_floating(values, kind, pa.float64())
    if pa.types.is_integer(kind):
        return values.cast(pa.float64(), safe=False)
    if pa.types.is_date32(kind):
        return values.cast(pa.int32()).cast(pa.float64())
    if pa.types.is_timestamp(kind):
        return values.cast(pa.int64()).cast(pa.float64(), safe=False)
    return None
