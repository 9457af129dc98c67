"""`read_committed`: each operation sees what is committed then, and changes apply to the newest."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

import lakeward as lw
from lakeward.errors import Conflict, InvalidExpression, TableNotFound
from tests.behaviour.lakes import append, column, data_files, delete, ids, overwrite


@pytest.fixture
def table(shared_lake: lw.Lake, name: str) -> str:
    shared_lake.create(name, {"id": "int64", "v": "string"})
    append(shared_lake, name, {"id": [1, 2, 3], "v": ["a", "b", "c"]})
    return name


def _begin(lake: lw.Lake) -> lw.Transaction:
    return lake.transaction(isolation="read_committed")


def _rows(lake: lw.Lake, name: str) -> list[tuple[int, str]]:
    return sorted((r["id"], r["v"]) for r in lake.table(name).to_arrow().to_pylist())


def test_each_read_sees_what_is_committed_by_then(shared_lake: lw.Lake, table: str) -> None:
    tx = _begin(shared_lake)
    assert column(tx.read(table)) == [1, 2, 3]
    append(shared_lake, table, {"id": [4], "v": ["d"]})
    assert column(tx.read(table)) == [1, 2, 3, 4]
    overwrite(shared_lake, table, {"id": [9], "v": ["z"]})
    assert column(tx.read(table)) == [9]
    tx.rollback()


def test_what_is_not_committed_is_never_seen(shared_lake: lw.Lake, table: str) -> None:
    other = shared_lake.transaction()
    other.overwrite(table, {"id": [66], "v": ["dirty"]})

    with _begin(shared_lake) as tx:
        assert column(tx.read(table)) == [1, 2, 3]
    other.rollback()
    with _begin(shared_lake) as tx:
        assert column(tx.read(table)) == [1, 2, 3]


def test_own_changes_lie_on_top_of_what_others_commit(shared_lake: lw.Lake, table: str) -> None:
    tx = _begin(shared_lake)
    tx.append(table, {"id": [100], "v": ["own"]})
    append(shared_lake, table, {"id": [4], "v": ["d"]})
    assert column(tx.read(table)) == [1, 2, 3, 4, 100]
    tx.delete(table, where="id = 1")
    delete(shared_lake, table, "id = 2")

    assert column(tx.read(table)) == [3, 4, 100]
    tx.commit()
    assert ids(shared_lake, table) == [3, 4, 100]


def test_rows_of_one_file_that_two_delete_are_gone_once_and_the_others_stay_once(
    shared_lake: lw.Lake, table: str
) -> None:
    """Both write the file again; the later one must not bring back what the first one deleted."""
    tx = _begin(shared_lake)
    tx.delete(table, where="id = 1")
    delete(shared_lake, table, "id = 3")

    result = tx.commit()
    assert ids(shared_lake, table) == [2]
    assert result.attempts == 2
    assert shared_lake.table(table).history(limit=1)[0].attempts == 2


def test_an_update_of_another_may_be_lost(shared_lake: lw.Lake, table: str) -> None:
    tx = _begin(shared_lake)
    (row,) = tx.read(table, where="id = 1").to_pylist()
    overwrite(shared_lake, table, [{"id": 1, "v": "theirs"}], where="id = 1")
    tx.overwrite(table, [{"id": 1, "v": row["v"] + "+ours"}], where="id = 1")
    tx.commit()

    assert _rows(shared_lake, table) == [(1, "a+ours"), (2, "b"), (3, "c")]


def test_an_overwrite_replaces_what_came_in_between_too(shared_lake: lw.Lake, table: str) -> None:
    """Both find nothing to replace; whoever commits later replaces the other's row."""
    tx = _begin(shared_lake)
    tx.overwrite(table, [{"id": 7, "v": "ours"}], where="id = 7")
    overwrite(shared_lake, table, [{"id": 7, "v": "theirs"}], where="id = 7")
    tx.commit()

    assert ids(shared_lake, table, where="id = 7") == [7]
    assert _rows(shared_lake, table)[-1] == (7, "ours")


def test_everything_that_was_done_is_done_again_in_its_order(
    shared_lake: lw.Lake, table: str
) -> None:
    tx = _begin(shared_lake)
    tx.append(table, {"id": [10, 11], "v": ["x", "y"]})
    tx.delete(table, where="id IN (1, 10)")
    tx.append(table, {"id": [1], "v": ["again"]})
    overwrite(shared_lake, table, {"id": [1, 5], "v": ["theirs", "theirs"]})
    tx.commit()

    assert _rows(shared_lake, table) == [(1, "again"), (5, "theirs"), (11, "y")]
    live = {f.path for v in range(4) for f in shared_lake.table(table).at(version=v).files()}
    assert data_files(shared_lake, table) == live


def test_only_the_table_that_lost_is_planned_again(
    shared_lake: lw.Lake, table: str, new_name: Callable[[], str]
) -> None:
    other = new_name()
    shared_lake.create(other, {"id": "int64"})
    append(shared_lake, other, {"id": [1, 2]})
    tx = _begin(shared_lake)
    tx.delete(other, where="id = 1")
    tx.delete(table, where="id = 1")
    staged = data_files(shared_lake, other)
    delete(shared_lake, table, "id = 2")
    tx.commit()

    assert (ids(shared_lake, table), ids(shared_lake, other)) == ([3], [2])
    assert data_files(shared_lake, other) == staged


def test_work_that_cannot_be_done_again_is_not_half_done(shared_lake: lw.Lake, table: str) -> None:
    """The condition cannot be computed for the rows that came; what was done must not be lost."""
    overwrite(shared_lake, table, {"id": [1, 2], "v": ["1", "2"]})
    tx = _begin(shared_lake)
    tx.append(table, {"id": [100], "v": ["100"]})
    tx.delete(table, where="CAST(v AS INT) = 1")
    overwrite(shared_lake, table, {"id": [1, 2], "v": ["one", "two"]})

    with pytest.raises(InvalidExpression):
        tx.read(table)
    with pytest.raises(InvalidExpression):
        tx.commit()
    assert _rows(shared_lake, table) == [(1, "one"), (2, "two")]


def test_a_file_that_is_named_and_gone_is_a_conflict(shared_lake: lw.Lake, table: str) -> None:
    (path,) = [f.path for f in shared_lake.table(table).files()]
    tx = _begin(shared_lake)
    tx.remove_files(table, [path])
    delete(shared_lake, table, "id = 1")

    with pytest.raises(Conflict) as caught:
        tx.commit()
    assert caught.value.kind == "removed"
    assert ids(shared_lake, table) == [2, 3]


def test_a_table_that_was_dropped_and_made_again_is_another_one(
    shared_lake: lw.Lake, table: str
) -> None:
    tx = _begin(shared_lake)
    tx.append(table, {"id": [4], "v": ["d"]})
    shared_lake.drop(table)
    shared_lake.create(table, {"id": "int64", "v": "string"})

    with pytest.raises(TableNotFound):
        tx.read(table)
    tx.rollback()
    assert ids(shared_lake, table) == []


def test_a_table_only_read_may_be_dropped_and_made_again(shared_lake: lw.Lake, table: str) -> None:
    tx = _begin(shared_lake)
    assert column(tx.read(table)) == [1, 2, 3]
    shared_lake.drop(table)
    shared_lake.create(table, {"id": "int64"})

    assert column(tx.read(table)) == []
    tx.rollback()


def test_writers_of_one_file_all_get_through(shared_lake: lw.Lake, name: str) -> None:
    """Each deletes its own row of the same file: none fails, no row comes back, none is doubled."""
    shared_lake.create(name, {"id": "int64"})
    append(shared_lake, name, {"id": range(12)})

    def work(number: int) -> None:
        with _begin(shared_lake) as tx:
            tx.delete(name, where=f"id = {number}")
            tx.append(name, {"id": [number + 100]})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(8)))

    assert ids(shared_lake, name) == [8, 9, 10, 11, *range(100, 108)]
    assert shared_lake.table(name).version == 9
