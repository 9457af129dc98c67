"""The row ids of an Iceberg table of version 3, as its metadata gives them to data files."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from lakeward.formats.iceberg.avro_files import read_records
from lakeward.formats.iceberg.memory_files import source

_DELETED = 2
_SEQUENCE = "_last_updated_sequence_number"


def metadata_of(place: str) -> dict[str, Any]:
    """A metadata document."""
    found: dict[str, Any] = json.loads(Path(place.removeprefix("file://")).read_text())
    return found


def row_ids(document: dict[str, Any]) -> dict[str, range]:
    """The ids of the rows of each live data file, inherited as the specification says."""
    number = document["current-snapshot-id"]
    snapshot = next(s for s in document["snapshots"] if s["snapshot-id"] == number)
    out: dict[str, range] = {}
    for manifest in _records(snapshot["manifest-list"]):
        if manifest["content"] != 0:
            continue
        following = manifest["first_row_id"]
        for entry in _records(manifest["manifest_path"]):
            if entry["status"] == _DELETED:
                continue
            file = entry["data_file"]
            first = file.get("first_row_id")
            if first is None:
                first = following
                following += file["record_count"]
            out[file["file_path"]] = range(first, first + file["record_count"])
    return out


def stable_ids(table: Any, key: str = "id") -> dict[Any, tuple[int, int | None]]:
    """The id of every row of a table without deletes, by its key, and its sequence number.

    The number is None where the row inherits it from its file.
    """
    out: dict[Any, tuple[int, int | None]] = {}
    for path, numbers in row_ids(metadata_of(str(table.metadata_location))).items():
        rows = pq.read_table(path.removeprefix("file://")).to_pylist()
        for row, number in zip(rows, numbers, strict=True):
            own = row.get("_row_id")
            out[row[key]] = (number if own is None else own, row.get(_SEQUENCE))
    assert len({number for number, _ in out.values()}) == len(out)
    return out


def check_row_ids(document: dict[str, Any], before: dict[str, range]) -> dict[str, range]:
    """Check that ids are unique, below the next one, and as they were in files that stayed."""
    found = row_ids(document)
    taken = sorted((r.start, r.stop) for r in found.values())
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(taken)), taken
    assert not taken or taken[-1][1] <= document["next-row-id"]
    assert {p: r for p, r in before.items() if p in found} == {
        p: r for p, r in found.items() if p in before
    }
    for snapshot in document["snapshots"]:
        if "first-row-id" not in snapshot:
            # The table had an older format version then.
            continue
        assert snapshot["first-row-id"] + snapshot["added-rows"] <= document["next-row-id"]
    return found


def _records(place: str) -> list[dict[str, Any]]:
    path = place.removeprefix("file://")
    records, schema, _ = read_records(source(path, Path(path).read_bytes()))
    return [_named(r, schema.as_struct()) for r in records]


def _named(record: Any, struct: Any) -> dict[str, Any]:
    out = {}
    for position, field in enumerate(struct.fields):
        value = record[position]
        nested = field.name == "data_file"
        out[field.name] = _named(value, field.field_type) if nested else value
    return out
