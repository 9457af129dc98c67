"""Checksums of columns that do not depend on row order: equal rows have equal checksums."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from lakeward.engines.arrow.grouped import rows_by_key
from lakeward.engines.arrow.key_hash import key_hashes
from lakeward.model.migration import ColumnCheck

_MASK = 2**64 - 1


class Checksums:
    """Row counts, null counts and sums of hashes for every column and partition."""

    def __init__(self, partition_by: Iterable[str]) -> None:
        self._by = list(partition_by)
        self._found: dict[tuple[str, str], list[int]] = {}

    def add(self, rows: pa.Table) -> None:
        """Add rows to the checksums."""
        for partition, some in self._split(rows):
            for name in some.column_names:
                entry = self._found.setdefault((partition, name), [0, 0, 0])
                column = some.column(name)
                entry[0] += some.num_rows
                entry[1] += column.null_count
                entry[2] = (entry[2] + _sum(column)) & _MASK

    def compared(self, table: Checksums) -> tuple[ColumnCheck, ...]:
        """Compare every column and partition of the source with the table."""
        keys = sorted(self._found.keys() | table._found.keys())
        nothing = [0, 0, 0]
        return tuple(
            ColumnCheck(
                partition,
                column,
                self._found.get((partition, column), nothing)[0],
                _text(self._found.get((partition, column), nothing)),
                _text(table._found.get((partition, column), nothing)),
            )
            for partition, column in keys
        )

    def _split(self, rows: pa.Table) -> Iterable[tuple[str, pa.Table]]:
        if not self._by or not rows.num_rows:
            return [("", rows)]
        out = []
        for values, members in rows_by_key(rows.select(self._by)):
            pairs = zip(self._by, values, strict=True)
            name = "/".join(f"{key}={value}" for key, value in pairs)
            out.append((name, rows.take(members)))
        return out


def _sum(column: pa.ChunkedArray) -> int:
    if pa.types.is_nested(column.type):
        column = pa.chunked_array([[repr(v) for v in column.to_pylist()]], pa.string())
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    hashes, is_known = key_hashes([column])
    with np.errstate(over="ignore"):
        return int(np.sum(hashes[is_known], dtype=np.uint64))


def _text(entry: list[int]) -> str:
    rows, nulls, total = entry
    return f"{rows}-{nulls}-{total:016x}"
