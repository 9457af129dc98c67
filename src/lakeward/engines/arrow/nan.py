"""NaN in Parquet files: columns that have one get no bounds.

Parquet leaves NaN out of a column's bounds. Engines that order it above all numbers, or find it
equal to itself, then skip rows that match. Where nothing is said, nothing is skipped.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

_FEW_ROWS: Final = 1_000
_CODES: Final[dict[pa.DataType, Literal["f", "d"]]] = {pa.float32(): "f", pa.float64(): "d"}
"""How Python calls the numbers of a buffer."""


def with_nan(data: pa.Table) -> list[str]:
    """Names of the columns that have a NaN, nested ones left out."""
    return [
        field.name
        for field in data.schema
        if pa.types.is_floating(field.type) and _has_nan(data.column(field.name))
    ]


def statistics_for(stored: pa.Schema, unordered: Collection[str]) -> bool | list[str]:
    """What Parquet's `write_statistics` should be: all columns, or the paths of those that may."""
    leaves = _leaves(stored)
    hidden = [path for path, name, risky in leaves if risky or name in unordered]
    return [path for path, _, _ in leaves if path not in hidden] if hidden else True


@lru_cache(maxsize=256)
def leaf_positions(stored: pa.Schema) -> dict[str, int]:
    """Where the columns of a file of this schema are, by their paths."""
    return {path: position for position, (path, _, _) in enumerate(_leaves(stored))}


def _has_nan(column: pa.ChunkedArray) -> bool:
    # A sum with NaN in it is NaN, and nearly every column is cleared by one.
    code = _CODES.get(column.type) if len(column) <= _FEW_ROWS else None
    total = pc.sum(column).as_py() if code is None else _total(column, code)
    if total is None or not math.isnan(total):
        return False
    return bool(pc.any(pc.is_nan(column)).as_py())


def _total(column: pa.ChunkedArray, code: Literal["f", "d"]) -> float:
    """The sum of few numbers, sooner than a kernel is found; what lies below nulls is in it."""
    total = 0.0
    for chunk in column.chunks:
        if not len(chunk):
            continue
        values = memoryview(chunk.buffers()[1]).cast("B").cast(code)
        total += sum(values[chunk.offset : chunk.offset + len(chunk)])
    return total


@lru_cache(maxsize=256)
def _leaves(stored: pa.Schema) -> tuple[tuple[str, str, bool], ...]:
    """Path and column of each leaf, and whether a NaN may hide in it: inside nested columns."""
    return tuple(
        (path, field.name, nested and pa.types.is_floating(kind))
        for field in stored
        for path, kind, nested in _paths(field.name, field.type, nested=False)
    )


def _paths(
    path: str, kind: pa.DataType, *, nested: bool
) -> Iterator[tuple[str, pa.DataType, bool]]:
    types = pa.types
    if types.is_struct(kind):
        for part in kind:
            yield from _paths(f"{path}.{part.name}", part.type, nested=True)
    elif types.is_list(kind):
        yield from _paths(f"{path}.list.element", kind.value_type, nested=True)
    elif types.is_map(kind):
        yield from _paths(f"{path}.key_value.key", kind.key_type, nested=True)
        yield from _paths(f"{path}.key_value.value", kind.item_type, nested=True)
    else:
        yield path, kind, nested
