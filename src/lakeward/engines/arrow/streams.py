"""Arrow streams of objects that other libraries made."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def reader_of(data: Any) -> pa.RecordBatchReader:
    """Return a reader of an object that has the Arrow stream interface.

    The stream of a DataFusion frame reads its partitions one after another. A plan that distributes
    rows over partitions then waits forever for those that nobody reads, so such a frame is executed
    with all partitions merged.
    """
    if hasattr(data, "execute_stream"):
        stream = data.execute_stream()
        return pa.RecordBatchReader.from_batches(
            data.schema(), (batch.to_pyarrow() for batch in stream)
        )
    if isinstance(data, pa.RecordBatchReader):
        # As a stream of another library, its batches would be read by the reader's schema, which
        # need not be theirs.
        return data
    return pa.RecordBatchReader.from_stream(data)
