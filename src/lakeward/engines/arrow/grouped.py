"""Groups rows by the values of columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa


def rows_by_key(keys: pa.Table) -> Iterator[tuple[tuple[Any, ...], pa.Array]]:
    """Yield each distinct row of the key columns, and the positions of its rows."""
    # Under names of our own: Arrow reads `.a` as a path, and adds columns such as `a_list`.
    names = [f"key_{n}" for n in range(keys.num_columns)]
    positions = pa.array(range(keys.num_rows), pa.int64())
    rows = pa.Table.from_arrays([*keys.columns, positions], names=[*names, "row"])
    groups = rows.group_by(names, use_threads=False).aggregate([("row", "list")])
    values = zip(*(groups.column(name).to_pylist() for name in names), strict=True)
    for key, members in zip(values, groups["row_list"], strict=True):
        yield key, members.values
