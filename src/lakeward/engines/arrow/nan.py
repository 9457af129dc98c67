"""NaN in Parquet files: columns that have one get no bounds.

Parquet leaves NaN out of a column's bounds. Engines that order it above all numbers, or find it
equal to itself, then skip rows that match. Where nothing is said, nothing is skipped.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import Final, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

Code: TypeAlias = Literal["f", "d"]

_FEW_ROWS: Final = 1_000
_CODES: Final[dict[pa.DataType, Code]] = {pa.float32(): "f", pa.float64(): "d"}
"""How Python calls the numbers of a buffer."""


class Columns:
    """The columns of files of one schema, as far as Parquet has to be told about them.

    Attributes:
        schema: Of the files.
        positions: Where columns are in a file, by their paths.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._leaves = [
            (path, field.name, nested and pa.types.is_floating(kind))
            for field in schema
            for path, kind, nested in _paths(field.name, field.type, nested=False)
        ]
        self._floats = [
            (position, field.name, _CODES.get(field.type))
            for position, field in enumerate(schema)
            if pa.types.is_floating(field.type)
        ]
        self.positions = {path: position for position, (path, _, _) in enumerate(self._leaves)}
        self._is_risky = any(risky for _, _, risky in self._leaves)

    def with_nan(self, data: pa.Table) -> list[str]:
        """Names of the columns that have a NaN, nested ones left out."""
        return [
            name for position, name, code in self._floats if _has_nan(data.column(position), code)
        ]

    def with_statistics(self, unordered: Collection[str]) -> bool | list[str]:
        """What Parquet's `write_statistics` should be: all, or the paths of columns that may.

        Inside nested columns a NaN may hide.
        """
        if not self._is_risky and not unordered:
            return True
        return [p for p, name, risky in self._leaves if not risky and name not in unordered]


def _has_nan(column: pa.ChunkedArray, code: Code | None) -> bool:
    # A sum with NaN in it is NaN, and nearly every column is cleared by one.
    is_small = code is not None and len(column) <= _FEW_ROWS
    total: float | None = _total(column, code) if is_small and code else pc.sum(column).as_py()
    if total is None or not math.isnan(total):
        return False
    return bool(pc.any(pc.is_nan(column)).as_py())


def _total(column: pa.ChunkedArray, code: Code) -> float:
    """The sum of few numbers, sooner than a kernel is found; what lies below nulls is in it."""
    total = 0.0
    for chunk in column.chunks:
        if not len(chunk):
            continue
        values = memoryview(chunk.buffers()[1]).cast("B").cast(code)
        total += sum(values[chunk.offset : chunk.offset + len(chunk)])
    return total


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
