"""Decodes small Parquet files from bytes in memory, if their columns are exactly as expected.

A scan of many small files spends most of its time on opening them one by one. A reader that needs
all rows of all files instead fetches each file with one read and decodes it here in one thread,
with several files at a time.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

_ID = b"PARQUET:field_id"


def whole_file(data: bytes, schema: pa.Schema, *, by_id: bool) -> pa.Table | None:
    """Return all rows of a Parquet file; None if its columns are not exactly those of `schema`.

    Args:
        data: The file's bytes.
        schema: The expected names, types and order of columns.
        by_id: Whether the field ids in the file must equal those of the schema too.

    Raises:
        OSError, pa.ArrowException: `data` is no Parquet file, or is damaged.
    """
    with pq.ParquetFile(pa.BufferReader(data), pre_buffer=False) as file:
        found = file.schema_arrow
        if not found.equals(schema) or (by_id and not _have_same_ids(found, schema)):
            return None
        return file.read(use_threads=False).replace_schema_metadata()


def _have_same_ids(found: pa.Schema, schema: pa.Schema) -> bool:
    return all(_same_ids(a, b) for a, b in zip(found, schema, strict=True))


def _same_ids(a: pa.Field, b: pa.Field) -> bool:
    """Return whether two fields of equal type, and all fields nested in them, have equal ids."""
    if (a.metadata or {}).get(_ID) != (b.metadata or {}).get(_ID):
        return False
    kind = a.type
    if not pa.types.is_nested(kind):
        return True
    return all(_same_ids(kind.field(n), b.type.field(n)) for n in range(kind.num_fields))
