"""A dropped column that comes back is searched in files that were added while it was gone."""

from __future__ import annotations

import pytest

import lakeward as lw
from tests.behaviour.lakes import append, delete
from tests.support.invariants import check_lake


def _check(lake: lw.Lake, name: str, found: dict[int, list[int]]) -> None:
    """Assert the ids that the rows with some values of `x` have, and that the log is sound."""
    table = lake.table(name)
    for value, expected in found.items():
        rows = table.to_arrow(where=f"x = {value}")
        assert sorted(rows["id"].to_pylist()) == expected, value
    assert [f for f in lake.doctor(tables=[name]).findings if f.code == "statistics"] == []
    check_lake(lake, [name])


def _table(lake: lw.Lake, name: str, **options: object) -> lw.Table:
    table = lake.create(name, "id int64, x int64", **options)  # type: ignore[arg-type]
    append(lake, name, {"id": [1, 2], "x": [5, 6]})
    return table


def test_a_file_that_was_restored_without_the_column(shared_lake: lw.Lake, name: str) -> None:
    table = _table(shared_lake, name)
    table.alter().drop_column("x").commit()
    dropped = table.version
    delete(shared_lake, name, "id > 0")
    table.restore(version=dropped)
    table.restore(version=1)

    _check(shared_lake, name, {5: [1], 6: [2], 7: []})
    with shared_lake.transaction() as tx:
        assert tx.delete(name, where="x = 5").deleted == 1
    _check(shared_lake, name, {5: [], 6: [2]})


def test_a_column_that_goes_and_comes_back_twice(shared_lake: lw.Lake, name: str) -> None:
    table = _table(shared_lake, name)
    table.alter().add_column("later", "int64").commit()
    append(shared_lake, name, {"id": [3], "x": [7], "later": [1]})
    both = table.version
    for _ in range(2):
        table.alter().drop_column("x").drop_column("later").commit()
        dropped = table.version
        delete(shared_lake, name, "id > 0")
        table.restore(version=dropped)
        table.restore(version=both)
        _check(shared_lake, name, {5: [1], 7: [3]})
        assert table.to_arrow(where="later = 1")["id"].to_pylist() == [3]

    table.vacuum(retention="0s", force=True)
    _check(shared_lake, name, {5: [1], 7: [3]})


@pytest.mark.formats("delta")
def test_a_file_with_rows_deleted_in_place_meanwhile(shared_lake: lw.Lake, name: str) -> None:
    policy = lw.Policy(merge_on_read=True, merge_on_read_fraction=1)
    table = _table(shared_lake, name, policy=policy)
    with shared_lake.transaction() as tx:
        tx.alter(name).drop_column("x")
    delete(shared_lake, name, "id = 1")
    assert table.files()[0].file.deletion_vector is not None

    shared_lake.undo(tx.transaction_id)

    _check(shared_lake, name, {5: [], 6: [2]})
