"""Parquet files that other engines would write, appended to Iceberg tables as they are.

pyiceberg's own append changes the rows (a null list of structs becomes an empty one) and always
uses the table's names. Here the file is written by pyarrow, with any names and field ids.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record


def append_file(
    table: Any,
    rows: pa.Table,
    *,
    partition: Sequence[Any] = (),
    names: Mapping[str, str] | None = None,
    statistics: bool = True,
) -> str:
    """Append a file with these rows; its path.

    Args:
        table: As pyiceberg loaded it.
        rows: With field ids as their schema has them.
        partition: The file's partition values.
        names: What columns are called inside the file, where it is not as in `rows`.
        statistics: Whether the manifest has bounds and counts; they need the table's own names.
    """
    file = data_file(table, rows, partition=partition, names=names, statistics=statistics)
    with table.transaction() as change:
        add_file(change, file)
    table.refresh()
    return str(file.file_path)


def add_file(change: Any, file: DataFile) -> None:
    """Append a data file in a transaction of pyiceberg."""
    with change.update_snapshot().fast_append() as snapshot:
        snapshot.append_data_file(file)


def data_file(
    table: Any,
    rows: pa.Table,
    *,
    partition: Sequence[Any] = (),
    names: Mapping[str, str] | None = None,
    statistics: bool = True,
    claims: Mapping[str, Any] | None = None,
) -> DataFile:
    """A new file with these rows, as a manifest lists it; `claims` replace what is true of it."""
    path = f"{table.location()}/data/{uuid.uuid4()}.parquet"
    local = Path(path.removeprefix("file://"))
    local.parent.mkdir(parents=True, exist_ok=True)
    stored = rows.rename_columns([(names or {}).get(n, n) for n in rows.column_names])
    pq.write_table(stored, local, store_schema=False)
    found: dict[str, Any] = {"record_count": rows.num_rows}
    if statistics:
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink)
        found = data_file_statistics_from_parquet_metadata(
            parquet_metadata=pq.read_metadata(pa.BufferReader(sink.getvalue())),
            stats_columns=compute_statistics_plan(table.schema(), table.properties),
            parquet_column_mapping=parquet_path_to_id_mapping(table.schema()),
        ).to_serialized_dict()
    told = {
        "file_path": path,
        "partition": Record(*partition),
        "file_size_in_bytes": local.stat().st_size,
        **found,
        **(claims or {}),
    }
    file = DataFile.from_args(content=DataFileContent.DATA, file_format=FileFormat.PARQUET, **told)
    file.spec_id = table.metadata.default_spec_id
    return file


def numbered(name: str, kind: pa.DataType, number: int, *, required: bool = False) -> pa.Field:
    """An Arrow field with a field id."""
    return pa.field(name, kind, not required, {"PARQUET:field_id": str(number)})
