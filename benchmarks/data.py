"""The rows that all contenders get."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

_CUSTOMERS = 5000
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.float64()), ("s", pa.string())])


def rows(count: int, *, start: int = 0) -> pa.Table:
    """Rows with ids from `start` on, values that hardly repeat and strings that do."""
    ids = np.arange(start, start + count, dtype=np.int64)
    names = pa.array([f"customer-{number:05d}" for number in range(_CUSTOMERS)])
    return pa.table(
        {
            "id": pa.array(ids),
            "v": pa.array((ids * 7919 % 1_000_003) / 7),
            "s": names.take(pa.array(ids * 31 % _CUSTOMERS)),
        },
        schema=SCHEMA,
    )
