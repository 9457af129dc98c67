"""The rows by which two tables of the same columns differ, each as often as it does."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_SIDE = "\0side"
_PLACE = "\0place"


def difference(before: pa.Table, after: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The rows that `before` has more often than `after`, and the other way round."""
    rows = pa.concat_tables([before, after])
    keys = pa.table(
        [_plain(c) for c in rows.columns], names=[str(n) for n in range(rows.num_columns)]
    )
    names = keys.column_names
    side = np.concatenate([np.ones(before.num_rows), -np.ones(after.num_rows)]).astype(np.int64)
    places = np.arange(rows.num_rows)
    marked = keys.append_column(_SIDE, pa.array(side)).append_column(_PLACE, pa.array(places))
    groups = marked.group_by(names, use_threads=False).aggregate([(_SIDE, "sum"), (_PLACE, "min")])
    surplus = groups[f"{_SIDE}_sum"].to_numpy()
    first = groups[f"{_PLACE}_min"].to_numpy()
    return (
        rows.take(pa.array(np.repeat(first, np.maximum(surplus, 0)))),
        rows.take(pa.array(np.repeat(first, np.maximum(-surplus, 0)))),
    )


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values that can be grouped by: of nested ones numbers, the same for the same value."""
    if not pa.types.is_nested(column.type):
        return pc.add(column, pa.scalar(0.0, column.type)) if _floats(column.type) else column
    counter = itertools.count()
    known: dict[str, int] = {}
    numbers = [known.setdefault(repr(v), next(counter)) for v in column.to_pylist()]
    return pa.chunked_array([pa.array(numbers, pa.int64())])


def _floats(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind))
