"""Which delete files apply to a data file: sequence numbers and partitions."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
)
from pyiceberg.typedef import Record

from lakeward.errors import UnsupportedFeature
from lakeward.formats.iceberg import unused_deletes
from lakeward.formats.iceberg.deletes import DeleteIndex
from lakeward.formats.iceberg.private import Layout, manifest_writer

_SPECS: dict[int, dict[str, Any]] = {
    0: {"fields": []},
    1: {"fields": [{"transform": "identity", "field-id": 1000, "source-id": 1}]},
    2: {"fields": [{"transform": "void", "field-id": 1000, "source-id": 1}]},
}


def _entry(content: str, sequence: int, *values: Any, spec: int = 0, kind: str = "PARQUET") -> Any:
    file = DataFile.from_args(
        content=DataFileContent[content],
        file_path=f"{content}-{sequence}",
        file_format=FileFormat[kind],
        partition=Record(*values),
        record_count=1,
        file_size_in_bytes=1,
        equality_ids=[2, 1] if content == "EQUALITY_DELETES" else None,
    )
    file.spec_id = spec
    return ManifestEntry.from_args(
        status=ManifestEntryStatus.ADDED,
        snapshot_id=1,
        sequence_number=sequence,
        data_file=file,
    )


def _applying(deletes: Any, data: Any) -> list[dict[str, Any]]:
    index = DeleteIndex(_SPECS, "here")
    index.add(deletes)
    return index.applying(data)


@pytest.mark.parametrize("sequence", [1, 2, 3])
def test_equality_deletes_spare_rows_of_their_own_commit_and_position_deletes_do_not(
    sequence: int,
) -> None:
    equal = _applying(_entry("EQUALITY_DELETES", 2), _entry("DATA", sequence))
    known = {"path": "EQUALITY_DELETES-2", "format": "PARQUET", "equality_ids": [1, 2]}
    assert equal == ([known] if sequence < 2 else [])

    placed = _applying(_entry("POSITION_DELETES", 2), _entry("DATA", sequence))
    assert placed == (
        [{"path": "POSITION_DELETES-2", "format": "PARQUET"}] if sequence <= 2 else []
    )


@pytest.mark.parametrize("value", [1, None, math.nan])
def test_equality_deletes_apply_within_their_partition(value: Any) -> None:
    deletes = _entry("EQUALITY_DELETES", 2, value, spec=1)
    assert _applying(deletes, _entry("DATA", 1, value, spec=1))
    assert not _applying(deletes, _entry("DATA", 1, 7, spec=1))
    assert not _applying(deletes, _entry("DATA", 1, spec=0))


@pytest.mark.parametrize(("spec", "values"), [(0, []), (2, [None])])
def test_equality_deletes_without_a_partition_apply_everywhere(
    spec: int, values: list[Any]
) -> None:
    deletes = _entry("EQUALITY_DELETES", 2, *values, spec=spec)
    assert _applying(deletes, _entry("DATA", 1, 7, spec=1))


def test_deletes_of_another_format_are_refused() -> None:
    with pytest.raises(UnsupportedFeature, match="deletes in AVRO"):
        DeleteIndex(_SPECS, "here").add(_entry("EQUALITY_DELETES", 2, kind="AVRO"))


def test_a_summary_counts_the_delete_files_that_are_gone() -> None:
    gone = [
        DataFile.from_args(
            content=DataFileContent[content], record_count=rows, file_size_in_bytes=100
        )
        for content, rows in (("POSITION_DELETES", 3), ("EQUALITY_DELETES", 2))
    ]
    before = {"total-delete-files": "5", "total-position-deletes": "7"}

    assert unused_deletes.counts(before, "1000", gone) == {
        "removed-delete-files": "2",
        "removed-position-deletes": "3",
        "removed-equality-deletes": "2",
        "total-delete-files": "3",
        "total-position-deletes": "4",
        "total-files-size": "800",
    }
    assert unused_deletes.counts(before, "1000", []) == {}


@pytest.mark.parametrize("version", [2, 3])
def test_manifests_of_deletes_declare_ids_as_other_engines_read_them(version: int) -> None:
    layout = Layout(
        b'{"type":"struct","schema-id":0,"fields":[]}',
        b'{"spec-id":0,"fields":[]}',
        version,
        "deletes",
    )
    shape = manifest_writer(layout, None, 1)._shape

    assert shape.metadata["content"] == "deletes"
    assert '"element-id": 136, "items": "int"' in shape.schema
