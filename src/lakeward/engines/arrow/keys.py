"""Rows told apart by the values of some columns. A key with a null in it equals no other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_POSITION: Final = "\0position"
"""A name that no column can have."""


def distinct(tables: Iterable[pa.Table], key: Sequence[str]) -> pa.Table:
    """Every key of some tables once, keys with nulls left out."""
    keys = pa.concat_tables([table.select(key) for table in tables])
    for name in key:
        keys = keys.filter(pc.is_valid(keys[name]))
    return keys.group_by(list(key)).aggregate([])


def without(rows: pa.Table, keys: pa.Table) -> pa.Table:
    """The rows whose key is not among some keys, in their order."""
    return split(rows, keys)[1]


def split(rows: pa.Table, keys: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The rows whose key is among some keys, and the others, in their order."""
    names = keys.column_names
    numbered = rows.select(names).append_column(_POSITION, pa.array(np.arange(rows.num_rows)))
    found = numbered.join(keys, keys=names, join_type="left semi")
    is_among = np.zeros(rows.num_rows, dtype=bool)
    is_among[found[_POSITION].to_numpy()] = True
    return rows.filter(pa.array(is_among)), rows.filter(pa.array(~is_among))


def only(rows: pa.Table, keys: pa.Table) -> pa.Table:
    """The rows whose key is among some keys, in no order."""
    return rows.join(keys, keys=keys.column_names, join_type="left semi")


def span(keys: pa.Table) -> dict[str, tuple[Any, Any]]:
    """The smallest and the largest value of each column, as Python has them."""
    out = {}
    for name in keys.column_names:
        found = pc.min_max(keys[name]).as_py()
        out[name] = (found["min"], found["max"])
    return out
