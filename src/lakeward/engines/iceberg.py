"""pyiceberg's own scan, for Iceberg tables whose rows plain Parquet reading would get wrong.

It honours delete files, and finds columns by their ids where they were renamed or widened.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.errors import MissingExtra, StorageError


def scan_iceberg(
    metadata: str,
    snapshot_id: int | None,
    schema: pa.Schema,
    *,
    columns: Sequence[str] | None = None,
    where: pc.Expression | None = None,
) -> pa.RecordBatchReader:
    """The rows of an Iceberg table at a snapshot.

    Args:
        metadata: A metadata document that knows the snapshot.
        snapshot_id: None for a table that has none.
        schema: What the rows are given as.
        columns: Names, in the order wanted; all when None.
        where: Keeps rows for which it is true.
    """
    try:
        from pyiceberg.table import StaticTable
    except ImportError as error:
        what = "Reading delete files or renamed columns of Iceberg tables needs pyiceberg."
        raise MissingExtra(what, hint="Run: pip install 'lakeward[iceberg]'.") from error
    names = list(schema.names if columns is None else columns)
    wanted = pa.schema([schema.field(n) for n in names])
    if snapshot_id is None:
        return wanted.empty_table().to_reader()
    try:
        found = StaticTable.from_metadata(metadata).scan(snapshot_id=snapshot_id).to_arrow()
    except Exception as error:
        what = f"pyiceberg could not read snapshot {snapshot_id} of {metadata}: {error}."
        raise StorageError(what, hint="Read it with Spark.") from error
    rows = found.select(schema.names).cast(schema)
    if where is not None:
        rows = rows.filter(where)
    return rows.select(names).to_reader()
