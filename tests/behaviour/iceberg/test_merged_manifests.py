"""Manifests that commits merge by copying blocks: readers find all files, and no others."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

import lakeward as lw
from lakeward.formats.iceberg import merging
from tests.behaviour.lakes import append, delete, ids
from tests.support.iceberg import stranger_table
from tests.support.row_ids import check_row_ids, metadata_of

_COLUMNS = {"id": "int64", "kind": "string", "day": "date", "part": "decimal(9, 2)"}


@pytest.fixture(autouse=True)
def joined(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Merge two manifests of similar size; whether each merge of complete ones copied blocks."""
    monkeypatch.setattr(merging, "_FAN", 2)
    monkeypatch.setattr(merging, "_TIER", 2)
    found: list[bool] = []
    original = merging._joined

    def noted(*args: Any) -> Any:
        made = original(*args)
        found.append(made is not None)
        return made

    monkeypatch.setattr(merging, "_joined", noted)
    return found


def _row(number: int) -> dict[str, Any]:
    kind = None if number % 5 == 0 else f"kind {number % 3}"
    part = Decimal(8 - number) / 2
    return {"id": number, "kind": kind, "day": date(2024, 1, 1 + number), "part": part}


def _create(lake: lw.Lake, name: str, version: str, by: list[str]) -> lw.Table:
    properties = {"format-version": version}
    return lake.create(name, _COLUMNS, partition_by=by, format="iceberg", properties=properties)


def _their_ids(lake: lw.Lake, name: str, condition: str = "id >= 0") -> list[int]:
    found = stranger_table(lake, name).scan(row_filter=condition).to_arrow()
    return sorted(found["id"].to_pylist())


@pytest.mark.parametrize("version", ["2", "3"])
@pytest.mark.parametrize("by", [[], ["kind", "day"], ["part"]])
def test_readers_find_all_files_of_copied_manifests(
    one_lake: lw.Lake, name: str, joined: list[bool], version: str, by: list[str]
) -> None:
    table = _create(one_lake, name, version, by)
    known: dict[str, range] = {}
    for number in range(16):
        append(one_lake, name, [_row(number)])
        if version == "3":
            known = check_row_ids(metadata_of(str(table.metadata_location)), known)
    assert all(joined)
    assert len(joined) > 3

    manifests = stranger_table(one_lake, name).current_snapshot().manifests
    counts = [m.existing_files_count for m in manifests(stranger_table(one_lake, name).io)]
    assert max(counts) == 8
    assert _their_ids(one_lake, name) == list(range(16))
    assert _their_ids(one_lake, name, "kind = 'kind 1'") == [1, 4, 7, 13]
    assert _their_ids(one_lake, name, "kind is null") == [0, 5, 10, 15]
    assert _their_ids(one_lake, name, "day >= '2024-01-14'") == [13, 14, 15]
    assert _their_ids(one_lake, name, "part < -2.50") == [14, 15]

    delete(one_lake, name, "id IN (2, 9)")
    left = [n for n in range(16) if n not in (2, 9)]
    assert _their_ids(one_lake, name) == ids(one_lake, name) == left
    table.restore(version=16)
    assert _their_ids(one_lake, name) == ids(one_lake, name) == list(range(16))


def test_a_summary_of_copied_manifests_covers_all_of_them(one_lake: lw.Lake, name: str) -> None:
    _create(one_lake, name, "2", ["kind", "day"])
    for number in (7, 1, 0, 4, 9, 8, 3, 6, 11):
        append(one_lake, name, [_row(number)])
    table = stranger_table(one_lake, name)
    manifest = max(
        table.current_snapshot().manifests(table.io), key=lambda m: m.existing_files_count
    )
    entries = manifest.fetch_manifest_entry(table.io)
    kinds, days = manifest.partitions
    found = [e.data_file.partition[0] for e in entries]
    assert kinds.contains_null == (None in found)
    assert kinds.lower_bound == min(k for k in found if k is not None).encode()
    assert kinds.upper_bound == max(k for k in found if k is not None).encode()
    assert not days.contains_null
    assert manifest.existing_rows_count == len(entries) == manifest.existing_files_count
    assert manifest.min_sequence_number == min(e.sequence_number for e in entries)


def test_manifests_of_different_schemas_are_merged_all_the_same(
    one_lake: lw.Lake, name: str, joined: list[bool]
) -> None:
    table = _create(one_lake, name, "2", [])
    for number in range(4):
        append(one_lake, name, [_row(number)])
    table.alter().add_column("note", "string").commit()
    for number in range(4, 12):
        append(one_lake, name, [_row(number) | {"note": "new"}])
    assert {True, False} == set(joined)
    assert _their_ids(one_lake, name) == list(range(12))
    assert _their_ids(one_lake, name, "note = 'new'") == list(range(4, 12))
