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
    for file in table.files(where=f"id = {row}"):
        path = f"{table.location}/{file.path}"
        stored = pq.read_table(path, columns=["id"])["id"].to_pylist()
        if row in stored:
            found = {path: [stored.index(row)]}
            delete_in_place(stranger.table(table.name), found, bounded=bounded)


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
