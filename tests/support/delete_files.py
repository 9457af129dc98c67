"""Foreign commits that delete rows in place, by delete files, which pyiceberg does not write."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, SetSnapshotRefUpdate
from pyiceberg.typedef import Record

_PATH_FIELD, _POS_FIELD = 2147483546, 2147483545


def delete_in_place(
    table: Table,
    positions: Mapping[str, Sequence[int]],
    *,
    bounded: bool = True,
    apart: bool = False,
) -> None:
    """Commit a snapshot that deletes rows by their positions in data files.

    Args:
        table: As pyiceberg loaded it.
        positions: Of the rows, by the data files' names as manifests spell them.
        bounded: The delete file tells for which data files it is meant.
        apart: Each data file gets a delete file of its own; one manifest lists them all.
    """
    by_path = {file.file_path: file for file in data_files(table)}
    targets = [by_path[path] for path in positions]
    deletes = []
    for some in [{p: at} for p, at in positions.items()] if apart else [positions]:
        (partition,) = {tuple(_values(by_path[p].partition)) for p in some}
        deletes.append(_delete_file(table, some, Record(*partition), bounded=bounded))
    _commit(table, deletes, targets[0].spec_id)


def _values(partition: Any) -> list[Any]:
    return [partition[i] for i in range(len(partition))]


def data_files(table: Table) -> list[Any]:
    """The data files of the current snapshot; pyiceberg plans no scan beside equality deletes."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return [
        entry.data_file
        for manifest in snapshot.manifests(table.io)
        if manifest.content == ManifestContent.DATA
        for entry in manifest.fetch_manifest_entry(table.io)
    ]


def delete_equal(
    table: Table, keys: pa.Table, ids: Sequence[int], *, partition: Sequence[Any] = ()
) -> str:
    """Commit a snapshot that deletes the rows that equal some keys; the delete file's path.

    Args:
        table: As pyiceberg loaded it.
        keys: Rows with field ids in their schema.
        ids: Of the fields that are compared.
        partition: Of the deletes, by the table's default spec.
    """
    name = f"{table.location()}/data/{uuid.uuid4()}-equal.parquet"
    local = Path(name.removeprefix("file://"))
    local.parent.mkdir(exist_ok=True)
    pq.write_table(keys, local)
    deletes = DataFile.from_args(
        content=DataFileContent.EQUALITY_DELETES,
        file_path=name,
        file_format=FileFormat.PARQUET,
        partition=Record(*partition),
        record_count=keys.num_rows,
        file_size_in_bytes=local.stat().st_size,
        equality_ids=list(ids),
    )
    _commit(table, [deletes], table.metadata.default_spec_id)
    return name


def _commit(table: Table, deletes: Sequence[Any], spec_id: int) -> None:
    """Commit a snapshot that adds delete files."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    number = uuid.uuid4().int & (2**62 - 1)
    place = f"{table.location()}/metadata"
    spec = table.specs()[spec_id]
    with _DeletesWriter(
        spec, table.schema(), table.io.new_output(f"{place}/{number}-m0.avro"), number, "deflate"
    ) as writer:
        for file in deletes:
            writer.add_entry(
                ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED,
                    snapshot_id=number,
                    sequence_number=None,
                    data_file=file,
                )
            )
    sequence = table.metadata.next_sequence_number()
    listed = f"{place}/snap-{number}.avro"
    with write_manifest_list(
        2, table.io.new_output(listed), number, snapshot.snapshot_id, sequence, "deflate"
    ) as writer_of_list:
        writer_of_list.add_manifests([*snapshot.manifests(table.io), writer.to_manifest_file()])
    new = Snapshot.model_validate(
        {
            "snapshot-id": number,
            "parent-snapshot-id": snapshot.snapshot_id,
            "sequence-number": sequence,
            "timestamp-ms": max(table.metadata.last_updated_ms, snapshot.timestamp_ms) + 1,
            "manifest-list": listed,
            "summary": {"operation": "delete"},
            "schema-id": table.metadata.current_schema_id,
        }
    )
    main = {"ref-name": "main", "type": "branch", "snapshot-id": number}
    updates = (
        AddSnapshotUpdate(snapshot=new),
        SetSnapshotRefUpdate.model_validate({"action": "set-snapshot-ref", **main}),
    )
    guard = AssertRefSnapshotId.model_validate(
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": snapshot.snapshot_id}
    )
    table.catalog.commit_table(table, (guard,), updates)
    table.refresh()


class _DeletesWriter(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    def _with_partition(self, format_version: Any) -> Schema:
        """As the specification has it: pyiceberg declares ids of fields as long, not as int."""
        text = super()._with_partition(format_version).model_dump_json()
        found = re.sub(r'("element-id":136,"element":)"long"', r'\1"int"', text)
        assert found != text
        return Schema.model_validate_json(found)


def _delete_file(
    table: Table, positions: Mapping[str, Sequence[int]], partition: Record, *, bounded: bool
) -> Any:
    pairs = sorted((path, pos) for path, found in positions.items() for pos in found)
    fields = [
        pa.field("file_path", pa.string(), False, {"PARQUET:field_id": str(_PATH_FIELD)}),
        pa.field("pos", pa.int64(), False, {"PARQUET:field_id": str(_POS_FIELD)}),
    ]
    rows = pa.table([[p for p, _ in pairs], [n for _, n in pairs]], schema=pa.schema(fields))
    name = f"{table.location()}/data/{uuid.uuid4()}-deletes.parquet"
    local = Path(name.removeprefix("file://"))
    local.parent.mkdir(exist_ok=True)
    pq.write_table(rows, local)
    low, high = pairs[0][0].encode(), pairs[-1][0].encode()
    return DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=name,
        file_format=FileFormat.PARQUET,
        partition=partition,
        record_count=len(pairs),
        file_size_in_bytes=local.stat().st_size,
        lower_bounds={_PATH_FIELD: low} if bounded else None,
        upper_bounds={_PATH_FIELD: high} if bounded else None,
    )
