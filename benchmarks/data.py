"""The rows that all contenders get."""

from __future__ import annotations

import pyarrow as pa

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.float64()), ("s", pa.string())])


def rows(count: int, *, start: int = 0) -> pa.Table:
    """Rows with ids from `start` on, values that hardly repeat and strings that do."""
    ids = range(start, start + count)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "v": pa.array([(i * 7919 % 1_000_003) / 7 for i in ids], pa.float64()),
            "s": pa.array([f"customer-{i * 31 % 5000:05d}" for i in ids], pa.string()),
        },
        schema=SCHEMA,
    )
