"""How columns are stored in Parquet files: as dictionaries, as differences, or as they are.

Values that repeat are stored once, and rows as positions among them. Where values hardly repeat,
that is wasted: the writer hashes a megabyte of them before it gives up, and the file is larger and
slower to read. Whole numbers that hardly repeat are mostly ids and moments, which lie close
together: stored as differences they take a fraction of the room, and no codec has to undo it.
"""

from __future__ import annotations

import random
from functools import cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_FEW_ROWS: Final = 1_000
"""So few rows need no dictionary: what it saves is less than its page costs."""
_SAMPLE_ROWS: Final = 2_048
_DISTINCT: Final = 0.98
"""With so many distinct values in a sample there are tens of thousands: too many to gain by."""
_LENGTH_BYTES: Final = 4
"""What Parquet spends on a string that is spelled out, beside its letters."""


def settings(data: pa.Table) -> dict[str, Any]:
    """What `ParquetWriter` is to be told for these rows."""
    if data.num_rows < _FEW_ROWS:
        return {"use_dictionary": False}
    if data.num_rows < 2 * _SAMPLE_ROWS or any(pa.types.is_nested(t) for t in data.schema.types):
        # A list of names would have to spell the paths of all leaves.
        return {"use_dictionary": True}
    sample = data.take(_sampled(data.num_rows))
    repeating = [name for name in data.column_names if _repeats(sample.column(name))]
    close = [f.name for f in data.schema if f.name not in repeating and _is_whole(f.type)]
    return {
        "use_dictionary": repeating,
        "column_encoding": dict.fromkeys(close, "DELTA_BINARY_PACKED") or None,
    }


def has_dictionary(chunk: pq.ColumnChunkMetaData) -> bool:
    """Whether a file's strings are a dictionary: they take less than spelled out they could."""
    known = chunk.statistics
    missing = known.null_count if known is not None and known.has_null_count else 0
    spelled_out = _LENGTH_BYTES * (chunk.num_values - missing)
    return bool(chunk.has_dictionary_page and chunk.total_uncompressed_size < spelled_out)


def _sampled(rows: int) -> pa.Array:
    """Positions in no order: values that come in cycles look distinct to any regular sample."""
    return pc.unique(pc.floor(pc.multiply(_places(), rows)).cast(pa.int64()))


@cache
def _places() -> pa.Array:
    chance = random.Random(0)  # noqa: S311  the same rows must always give the same file
    return pa.array([chance.random() for _ in range(_SAMPLE_ROWS)], pa.float64())


def _is_whole(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_date(kind) or types.is_timestamp(kind))


def _repeats(sample: pa.ChunkedArray) -> bool:
    known = len(sample) - sample.null_count
    return bool(pc.count_distinct(sample).as_py() < _DISTINCT * known)
