"""Groups and sorts rows by the values of columns, whatever the names of the columns are.

Arrow reads names that begin with a dot or a bracket as paths into nested columns, and adds columns
such as `a_list`, so all this is done under names of our own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def rows_by_key(keys: pa.Table) -> Iterator[tuple[tuple[Any, ...], pa.Array]]:
    """Yield each distinct row of the key columns, and the positions of its rows."""
    rows = renamed(keys)
    names = rows.column_names
    rows = rows.append_column("row", pa.array(range(keys.num_rows), pa.int64()))
    groups = rows.group_by(names, use_threads=False).aggregate([("row", "list")])
    values = zip(*(groups.column(name).to_pylist() for name in names), strict=True)
    for key, members in zip(values, groups["row_list"], strict=True):
        yield key, members.values


def distinct_rows(rows: pa.Table) -> pa.Table:
    """Return each distinct row once."""
    plain = renamed(rows)
    groups = plain.group_by(plain.column_names).aggregate([])
    return groups.select(plain.column_names).rename_columns(rows.column_names)


def ascending(rows: pa.Table) -> pa.Array:
    """Return the positions of rows in the order of all their columns; nulls come first."""
    plain = renamed(rows)
    return pc.sort_indices(
        plain, sort_keys=[(n, "ascending", "at_start") for n in plain.column_names]
    )


def renamed(rows: pa.Table) -> pa.Table:
    """Return rows whose columns are called `key_0`, `key_1` and so on."""
    return rows.rename_columns([f"key_{n}" for n in range(rows.num_columns)])
