"""Rows that others deleted in place, by delete files beside the data files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeward as lw
from tests.behaviour.iceberg.strangers import Stranger, agree, every_version
from tests.behaviour.iceberg.theirs import eventful, their_catalog
from tests.behaviour.lakes import append, delete, ids, overwrite
from tests.support.delete_files import delete_in_place


def _rows(*numbers: int) -> pa.Table:
    return pa.table({"id": numbers, "part": [n % 2 for n in numbers]})


@pytest.fixture(params=[False, True], ids=["plain", "partitioned"])
def table(one_lake: lw.Lake, name: str, request: pytest.FixtureRequest) -> lw.Table:
    """Rows 1 to 8 in two versions."""
    by = ["part"] if request.param else []
    schema = {"id": "int64", "part": "int64"}
    made = one_lake.create(name, schema, format="iceberg", partition_by=by)
    append(one_lake, name, _rows(1, 2, 3, 4))
    append(one_lake, name, _rows(5, 6, 7, 8))
    return made


def _delete(stranger: Stranger, table: lw.Table, row: int, *, bounded: bool = True) -> None:
    """Delete a row by its position in the file that holds it."""
    delete_in_place(stranger.table(table.name), _place(table, row), bounded=bounded)


def _place(table: lw.Table, row: int) -> dict[str, list[int]]:
    """Return the data file that holds a row, with the row's position."""
    for file in table.files(where=f"id = {row}"):
        path = f"{table.location}/{file.path}"
        stored = pq.read_table(path, columns=["id"])["id"].to_pylist()
        if row in stored:
            return {path: [stored.index(row)]}
    raise AssertionError(row)


@pytest.mark.parametrize("bounded", [True, False], ids=["bounded", "unbounded"])
def test_rows_deleted_in_place_are_gone_and_earlier_versions_keep_them(
    one_lake: lw.Lake, one_stranger: Stranger, table: lw.Table, name: str, *, bounded: bool
) -> None:
    _delete(one_stranger, table, 2, bounded=bounded)
    assert ids(one_lake, name) == [1, 3, 4, 5, 6, 7, 8]
    assert agree(one_stranger, table) == 7
    _delete(one_stranger, table, 4, bounded=bounded)
    assert agree(one_stranger, table) == 6

    every = [1, 2, 3, 4, 5, 6, 7, 8]
    assert every_version(table)[2:] == [every, [1, 3, 4, 5, 6, 7, 8], [1, 3, 5, 6, 7, 8]]
    assert ids(one_lake, name, where="id < 4") == [1, 3]
    assert [v.operation for v in table.history(limit=2)] == ["DELETE", "DELETE"]


def test_the_lake_writes_on_top_of_deletes_in_place(
    one_lake: lw.Lake, one_stranger: Stranger, table: lw.Table, name: str
) -> None:
    _delete(one_stranger, table, 2)

    append(one_lake, name, _rows(9, 10))
    assert agree(one_stranger, table) == 9
    # The rows that stay are written again, and the deleted one does not come back.
    delete(one_lake, name, "id = 4")
    assert ids(one_lake, name) == [1, 3, 5, 6, 7, 8, 9, 10]
    assert agree(one_stranger, table) == 8
    with one_lake.transaction() as tx:
        assert sorted(tx.read(name)["id"].to_pylist()) == [1, 3, 5, 6, 7, 8, 9, 10]
    _delete(one_stranger, table, 9)
    delete(one_lake, name, "id < 4")
    assert agree(one_stranger, table) == 5
    overwrite(one_lake, name, _rows(20))
    assert agree(one_stranger, table) == 1


@pytest.mark.parametrize("bounded", [True, False], ids=["bounded", "unbounded"])
def test_a_compaction_applies_deletes_and_forgets_their_files(
    one_lake: lw.Lake, one_stranger: Stranger, table: lw.Table, name: str, *, bounded: bool
) -> None:
    _delete(one_stranger, table, 2, bounded=bounded)
    _delete(one_stranger, table, 5, bounded=bounded)
    append(one_lake, name, _rows(9, 10))
    before = ids(one_lake, name)
    assert len(_listed_deletes(one_stranger, table)) == 2

    assert table.optimize(purge=True).state == "done"

    assert ids(one_lake, name) == before
    assert not any(f.file.deletion_vector for f in table.files())
    assert agree(one_stranger, table) == len(before)
    assert _listed_deletes(one_stranger, table) == []
    table.vacuum(retention="0s", force=True)
    assert agree(one_stranger, table) == len(before)


def test_deletes_of_other_files_stay_when_a_file_is_rewritten(
    one_lake: lw.Lake, one_stranger: Stranger, table: lw.Table, name: str
) -> None:
    places = _place(table, 2) | _place(table, 5)
    delete_in_place(one_stranger.table(name), places, apart=True)
    both = _listed_deletes(one_stranger, table)

    # The file of 4 is written again, without 2; the deletes of the file of 5 are needed.
    delete(one_lake, name, "id = 4")

    left = _listed_deletes(one_stranger, table)
    assert (len(both), len(left)) == (2, 1)
    snapshot = one_stranger.table(name).current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary["removed-delete-files"] == "1"
    assert snapshot.summary["removed-position-deletes"] == "1"
    table.vacuum(retention="0s", force=True)
    append(one_lake, name, _rows(9))
    assert ids(one_lake, name) == [1, 3, 6, 7, 8, 9]
    assert agree(one_stranger, table) == 6
    assert all(Path(p.removeprefix("file://")).exists() for p in left)
    assert not one_lake.doctor(tables=[name]).findings


def _listed_deletes(stranger: Stranger, table: lw.Table) -> list[str]:
    """The paths of the delete files that the newest snapshot lists."""
    found = stranger.table(table.name)
    return sorted(found.inspect.delete_files()["file_path"].to_pylist())


def test_a_table_with_deletes_in_place_is_adopted_with_them(
    one_lake: lw.Lake, one_stranger: Stranger, name: str, tmp_path: Path
) -> None:
    with their_catalog(tmp_path / "theirs") as theirs:
        made, expected = eventful(theirs, "shop.orders")
        files = {t.file.file_path: t.file.record_count for t in made.scan().plan_files()}
        path = next(p for p, count in files.items() if count == 2)
        delete_in_place(made, {path: [0]})
        left = sorted(made.scan().to_arrow()["id"].to_pylist())

        table = one_lake.adopt(name, made.metadata_location)

    assert every_version(table) == [*expected, left]
    assert len(left) == len(expected[-1]) - 1
    assert agree(one_stranger, table) == len(left)


def test_changes_have_the_rows_that_delete_files_delete(
    one_stranger: Stranger, table: lw.Table
) -> None:
    for row in (3, 4):
        _delete(one_stranger, table, row)
    rows = table.changes(since=3).read_all().to_pylist()
    found = [(r["_commit_version"], r["_change_type"], r["id"]) for r in rows]
    assert found == [(3, "delete", 3), (4, "delete", 4)]
    compared = table.diff(2, 4, rows=True, key="id").rows
    assert compared is not None
    assert (compared.inserted, compared.deleted, compared.changed) == (0, 2, 0)
