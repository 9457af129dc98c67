"""Rows of a table by their places, without copying the rest of it.

Arrow's own `take` puts the parts of a table together first, which costs as much as the table is
large, however few rows are wanted.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakeward.engines.arrow.matching import Positions


def picked(rows: pa.Table, places: Positions) -> pa.Table:
    """The rows at some places, in the order of the places."""
    if len(places) > 1 and (places[1:] < places[:-1]).any():
        order = np.argsort(places, kind="stable")
        back = np.empty(len(order), dtype=np.int64)
        back[order] = np.arange(len(order))
        return picked(rows, places[order]).take(pa.array(back))
    parts = []
    start = 0
    for batch in rows.to_batches():
        low, high = np.searchsorted(places, [start, start + batch.num_rows])
        if high > low:
            parts.append(batch.take(pa.array(places[low:high] - start)))
        start += batch.num_rows
    return pa.Table.from_batches(parts, rows.schema)
