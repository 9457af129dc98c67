"""Updates and merges on tables that ask for merge-on-read: large files stay where they are."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

import lakeward as lw
from lakeward.errors import Conflict, ConstraintViolation
from tests.behaviour.lakes import append, unchanged
from tests.support.tables import table_of

pytestmark = [pytest.mark.formats("delta"), pytest.mark.local]

_ROWS = 200

_TABLE = (
    table_of(id="int64", v="int64").merging_on_read().rows({"id": range(_ROWS), "v": [0] * _ROWS})
)


def _changed(table: lw.Table) -> dict[int, int]:
    found = table.to_arrow(where="v <> 0").to_pylist()
    return {r["id"]: r["v"] for r in found}


def _stranger(table: lw.Table) -> list[tuple[int, int]]:
    found = QueryBuilder().register("t", DeltaTable(table.location)).execute("SELECT * FROM t")
    return sorted((r["id"], r["v"]) for r in pa.table(found).to_pylist())


def test_few_rows_are_updated_in_place_time_and_again(shared_lake: lw.Lake, name: str) -> None:
    table = _TABLE.make(shared_lake, name)
    (first,) = table.files()

    with shared_lake.transaction() as tx:
        done = tx.update(name, set={"v": "id + 1"}, where="id IN (3, 7)")
    with shared_lake.transaction() as tx:
        again = tx.merge(
            name,
            {"id": [7, 8, 500], "v": [70, 80, 90]},
            on="id",
            not_matched_by_source=lw.When("target.id = 9", "delete"),
        )

    assert (done.updated, done.files_touched) == (2, 1)
    assert (again.inserted, again.updated, again.deleted) == (1, 2, 1)
    assert _changed(table) == {3: 4, 7: 70, 8: 80, 500: 90}
    assert table.to_arrow().num_rows == _ROWS
    assert first.path in {f.path for f in table.files()}
    assert _stranger(table) == sorted((r["id"], r["v"]) for r in table.to_arrow().to_pylist())
    assert table.at(version=1).to_arrow(where="v <> 0").num_rows == 0


def test_where_many_rows_change_the_file_is_written_again(shared_lake: lw.Lake, name: str) -> None:
    table = _TABLE.make(shared_lake, name)
    (first,) = table.files()
    with shared_lake.transaction() as tx:
        tx.update(name, set={"v": "1"}, where="id < 5")

    with shared_lake.transaction() as tx:
        tx.update(name, set={"v": "v + 1"}, where="id < 100")

    assert _changed(table) == {n: 1 + (n < 5) for n in range(100)}
    assert first.path not in {f.path for f in table.files()}
    assert all(f.file.deletion_vector is None for f in table.files())


def test_several_operations_of_one_transaction(shared_lake: lw.Lake, name: str) -> None:
    table = _TABLE.make(shared_lake, name)

    with shared_lake.transaction() as tx:
        tx.update(name, set={"v": "1"}, where="id <= 2")
        tx.update(name, set={"v": "v + 10"}, where="id IN (2, 3)")
        tx.delete(name, where="id = 0")
        tx.append(name, {"id": [900], "v": [9]})
        tx.merge(name, {"id": [900, 1], "v": [-9, -1]}, on="id")

    assert _changed(table) == {1: -1, 2: 11, 3: 10, 900: -9}
    assert table.to_arrow().num_rows == _ROWS
    assert _stranger(table) == sorted((r["id"], r["v"]) for r in table.to_arrow().to_pylist())


def test_the_change_feed_tells_rows_that_change_in_place(shared_lake: lw.Lake, name: str) -> None:
    table = _TABLE.make(shared_lake, name, policy={"change_data_feed": True})

    with shared_lake.transaction() as tx:
        tx.merge(name, {"id": [4, 999], "v": [1, 2]}, on="id")
    version = tx.commit().versions[name]

    assert len(table.files()) == 2
    reader = DeltaTable(table.location).load_cdf(version, version)
    told = pa.table(reader.read_all()).to_pylist()
    assert sorted((r["_change_type"], r["id"], r["v"]) for r in told) == [
        ("insert", 999, 2),
        ("update_postimage", 4, 1),
        ("update_preimage", 4, 0),
    ]


def test_two_that_change_one_file_in_place_conflict(shared_lake: lw.Lake, name: str) -> None:
    table = _TABLE.make(shared_lake, name)

    tx = shared_lake.transaction()
    tx.update(name, set={"v": "1"}, where="id = 1")
    with shared_lake.transaction() as other:
        other.update(name, set={"v": "2"}, where="id = 2")
    with pytest.raises(Conflict):
        tx.commit()

    assert _changed(table) == {2: 2}


def test_new_values_are_checked_there_too(shared_lake: lw.Lake, name: str) -> None:
    _TABLE.make(shared_lake, name, constraints={"small": "v < 10"})

    with (
        unchanged(shared_lake),
        pytest.raises(ConstraintViolation),
        shared_lake.transaction() as tx,
    ):
        tx.update(name, set={"v": "10"}, where="id = 1")


def test_a_row_of_a_partition_moves(shared_lake: lw.Lake, name: str) -> None:
    policy = {"merge_on_read": True}
    columns = {"id": "int64", "p": "string"}
    table = shared_lake.create(name, columns, partition_by=["p"], policy=policy)
    append(shared_lake, name, {"id": range(50), "p": ["a"] * 50})

    with shared_lake.transaction() as tx:
        tx.update(name, set={"p": "'b'"}, where="id = 5")

    assert table.to_arrow(where="p = 'b'")["id"].to_pylist() == [5]
    assert table.to_arrow(where="p = 'a'").num_rows == 49
    assert len(table.files()) == 2


def test_rows_in_several_row_groups_of_a_file(shared_lake: lw.Lake, name: str) -> None:
    columns = {"id": "int64", "v": "int64", "w": "int64"}
    table = shared_lake.create(name, columns, policy={"merge_on_read": True})
    numbers = pa.array(range(300_000))
    zeros = pa.array([0] * 300_000)
    append(shared_lake, name, pa.table({"id": numbers, "v": zeros, "w": numbers}))
    places = [5, 131_071, 131_072, 262_143, 299_999]

    for turn in (1, 2):
        with shared_lake.transaction() as tx:
            done = tx.merge(name, {"id": places[turn:], "v": [turn] * (5 - turn)}, on="id")
        assert done.updated == 5 - turn

    found = table.to_arrow(where="v > 0").sort_by("id").to_pylist()
    assert [(r["id"], r["v"]) for r in found] == [
        (131_071, 1),
        (131_072, 2),
        (262_143, 2),
        (299_999, 2),
    ]
    assert all(r["w"] == r["id"] for r in found)
    assert table.to_arrow(columns=["id"])["id"].unique().null_count == 0
    assert len(table.to_arrow(columns=["id"])["id"].unique()) == 300_000
