"""`LastWriterWins`: keys that the transaction touched are as it left them, others as others did."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lakeward as lw
from lakeward.errors import Conflict, InvalidInput
from tests.behaviour.lakes import append, data_files, delete, overwrite, unchanged

Row: TypeAlias = tuple[int, str]
BY_ID = lw.LastWriterWins(key=("id",))


@pytest.fixture
def table(shared_lake: lw.Lake, name: str) -> str:
    shared_lake.create(name, {"id": "int64", "v": "string"})
    append(shared_lake, name, _data((n, "base") for n in range(6)))
    return name


@pytest.fixture
def other(shared_lake: lw.Lake, new_name: Callable[[], str]) -> str:
    """A table that no strategy is for."""
    name = new_name()
    shared_lake.create(name, {"n": "int64"})
    append(shared_lake, name, {"n": [1, 2]})
    return name


def _data(rows: Any) -> list[dict[str, Any]]:
    return [{"id": number, "v": text} for number, text in rows]


def _rows(lake: lw.Lake, name: str) -> list[Row]:
    return sorted((r["id"], r["v"]) for r in lake.table(name).to_arrow().to_pylist())


def _begin(lake: lw.Lake) -> lw.Transaction:
    return lake.transaction(on_conflict=BY_ID)


def test_a_key_that_both_wrote_is_ours_and_others_stay(shared_lake: lw.Lake, table: str) -> None:
    tx = _begin(shared_lake)
    tx.overwrite(table, _data([(1, "ours"), (7, "ours")]), where="id IN (1, 7)")
    overwrite(shared_lake, table, _data([(1, "theirs"), (2, "theirs")]), where="id <= 2")
    result = tx.commit()

    assert _rows(shared_lake, table) == [
        (1, "ours"),
        (2, "theirs"),
        (3, "base"),
        (4, "base"),
        (5, "base"),
        (7, "ours"),
    ]
    assert result.attempts == 2
    known = {
        f.path
        for v in range(result.versions[table] + 1)
        for f in shared_lake.table(table).at(version=v).files()
    }
    assert data_files(shared_lake, table) == known


def test_a_key_that_we_deleted_is_gone_although_others_wrote_it(
    shared_lake: lw.Lake, table: str
) -> None:
    tx = _begin(shared_lake)
    tx.delete(table, where="id = 1")
    overwrite(shared_lake, table, _data([(1, "theirs"), (2, "theirs")]), where="id IN (1, 2)")
    tx.commit()

    assert _rows(shared_lake, table)[:2] == [(0, "base"), (2, "theirs")]


def test_rows_of_others_inside_our_scope_stay_unless_their_key_is_ours(
    shared_lake: lw.Lake, table: str
) -> None:
    tx = _begin(shared_lake)
    tx.overwrite(table, _data([(1, "ours")]))
    append(shared_lake, table, _data([(1, "theirs"), (50, "theirs")]))
    tx.commit()

    assert _rows(shared_lake, table) == [(1, "ours"), (50, "theirs")]


def test_rows_that_only_were_in_the_way_come_back_as_others_left_them(
    shared_lake: lw.Lake, table: str
) -> None:
    """Our copy of a file that both rewrote holds old rows of keys that only they touched."""
    tx = _begin(shared_lake)
    tx.delete(table, where="id = 0")
    delete(shared_lake, table, "id = 3")
    overwrite(shared_lake, table, _data([(4, "theirs")]), where="id = 4")
    tx.commit()

    assert _rows(shared_lake, table) == [(1, "base"), (2, "base"), (4, "theirs"), (5, "base")]


def test_an_appended_key_replaces_the_same_key_that_others_appended(
    shared_lake: lw.Lake, table: str
) -> None:
    tx = _begin(shared_lake)
    tx.append(table, _data([(8, "ours"), (9, "ours")]))
    append(shared_lake, table, _data([(9, "theirs"), (10, "theirs")]))
    tx.commit()

    assert _rows(shared_lake, table)[6:] == [(8, "ours"), (9, "ours"), (10, "theirs")]


def test_rows_that_were_there_before_are_not_taken_for_those_of_others(
    shared_lake: lw.Lake, table: str
) -> None:
    """An append means to add: what it finds at its start stays, in spite of the same key."""
    tx = _begin(shared_lake)
    tx.append(table, _data([(0, "ours")]))
    append(shared_lake, table, _data([(0, "theirs")]))
    tx.commit()

    assert _rows(shared_lake, table)[:2] == [(0, "base"), (0, "ours")]


def test_rows_that_others_only_copied_into_another_file_stay(
    shared_lake: lw.Lake, table: str
) -> None:
    """The row of key 0 was there before; that a neighbour changed moves it to another file."""
    tx = _begin(shared_lake)
    tx.append(table, _data([(0, "ours"), (1, "ours"), (3, "ours")]))
    tx.delete(table, where="v = 'base' AND id = 3")
    overwrite(shared_lake, table, _data([(1, "theirs"), (5, "theirs")]), where="id IN (1, 5)")
    append(shared_lake, table, _data([(0, "theirs")]))
    tx.commit()

    assert _rows(shared_lake, table) == [
        (0, "base"),
        (0, "ours"),
        (1, "ours"),
        (2, "base"),
        (3, "ours"),
        (4, "base"),
        (5, "theirs"),
    ]


def test_a_look_at_another_table_is_not_the_moment_to_fail(
    shared_lake: lw.Lake, table: str, new_name: Callable[[], str]
) -> None:
    """The cut is taken before the first row is added, so looking later moves nothing."""
    other = new_name()
    shared_lake.create(other, {"id": "int64"})
    tx = _begin(shared_lake)
    tx.append(table, _data([(9, "ours")]))
    append(shared_lake, table, _data([(9, "theirs")]))
    append(shared_lake, other, {"id": [1]})
    assert tx.read(other).num_rows == 0
    tx.commit()

    assert _rows(shared_lake, table)[6:] == [(9, "ours")]


def test_keys_that_nobody_else_touched_need_no_settling(shared_lake: lw.Lake, table: str) -> None:
    tx = _begin(shared_lake)
    tx.append(table, _data([(100, "ours")]))
    append(shared_lake, table, _data([(200, "theirs")]))

    assert tx.commit().attempts == 1


def test_others_may_come_again_while_it_is_settled(shared_lake: lw.Lake, table: str) -> None:
    tx = _begin(shared_lake)
    tx.overwrite(table, _data([(1, "ours")]), where="id = 1")
    overwrite(shared_lake, table, _data([(1, "first")]), where="id = 1")
    seen = []

    @shared_lake.hooks.before_commit
    def come_again(staged: lw.StagedCommit) -> None:
        if staged.transaction_id == tx.transaction_id:
            seen.append(staged.attempts)
            if staged.attempts == 2:
                overwrite(shared_lake, table, _data([(1, "x"), (2, "x")]), where="id IN (1, 2)")

    try:
        tx.commit()
    finally:
        shared_lake.hooks.remove(come_again)
    assert seen == [1, 2, 3]
    assert _rows(shared_lake, table)[:3] == [(0, "base"), (1, "ours"), (2, "x")]


def test_only_the_table_that_lost_is_made_again(
    shared_lake: lw.Lake, table: str, other: str
) -> None:
    tx = shared_lake.transaction(on_conflict={table: BY_ID})
    tx.delete(other, where="n = 1")
    tx.delete(table, where="id = 1")
    staged = data_files(shared_lake, other)
    delete(shared_lake, table, "id = 2")
    tx.commit()

    assert [n for n, _ in _rows(shared_lake, table)] == [0, 3, 4, 5]
    assert data_files(shared_lake, other) == staged


def test_a_table_without_a_strategy_still_conflicts(
    shared_lake: lw.Lake, table: str, other: str
) -> None:
    tx = shared_lake.transaction(on_conflict={table: BY_ID})
    tx.delete(other, where="n = 1")
    tx.delete(table, where="id = 1")
    delete(shared_lake, table, "id = 2")
    delete(shared_lake, other, "n = 2")

    with pytest.raises(Conflict) as caught:
        tx.commit()
    assert caught.value.table == other
    assert len(_rows(shared_lake, table)) == 5


def test_keys_of_several_columns_and_rows_without_a_key(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, {"a": "string", "b": "date", "v": "string"})
    tx = shared_lake.transaction(on_conflict=lw.LastWriterWins(key=["a", "b"]))
    tx.append(name, [{"a": "x", "b": None, "v": "ours"}, {"a": "y", "b": None, "v": "ours"}])
    append(shared_lake, name, [{"a": "x", "b": None, "v": "theirs"}])
    tx.commit()

    found = shared_lake.table(name).to_arrow().to_pylist()
    assert sorted((r["a"], r["v"]) for r in found) == [
        ("x", "ours"),
        ("x", "theirs"),
        ("y", "ours"),
    ]


def test_files_picked_by_hand_are_not_settled_by_key(shared_lake: lw.Lake, table: str) -> None:
    (path,) = [f.path for f in shared_lake.table(table).files()]
    tx = _begin(shared_lake)
    tx.remove_files(table, [path])
    delete(shared_lake, table, "id = 2")

    with pytest.raises(Conflict):
        tx.commit()


@pytest.mark.before_the_store
@pytest.mark.parametrize("level", ["read_committed", "serializable"])
def test_levels_that_it_makes_no_sense_with_are_refused(shared_lake: lw.Lake, level: str) -> None:
    with unchanged(shared_lake), pytest.raises(InvalidInput) as caught:
        shared_lake.transaction(isolation=level, on_conflict=BY_ID)
    assert caught.value.parameter == "on_conflict"


@pytest.mark.parametrize("key", [(), ("id", "id"), 7, [7]])
def test_keys_that_are_none_are_refused(key: Any) -> None:
    with pytest.raises(InvalidInput):
        lw.LastWriterWins(key=key)


def test_a_table_without_the_key_is_refused_before_anything_is_written(
    shared_lake: lw.Lake, name: str
) -> None:
    shared_lake.create(name, {"n": "int64", "id": "double"})
    for key in ("nope", "id"):
        tx = shared_lake.transaction(on_conflict=lw.LastWriterWins(key=key))
        with unchanged(shared_lake), pytest.raises(InvalidInput) as caught:
            tx.append(name, {"n": [1], "id": [1.0]})
        assert (caught.value.table, caught.value.column) == (name, key)
        tx.rollback()


def test_a_function_is_not_run_again_where_keys_settle_it(shared_lake: lw.Lake, table: str) -> None:
    calls = []

    def work(tx: lw.Transaction) -> None:
        calls.append(1)
        tx.overwrite(table, _data([(1, "ours")]), where="id = 1")
        if len(calls) == 1:
            overwrite(shared_lake, table, _data([(1, "theirs")]), where="id = 1")

    assert shared_lake.run(work, on_conflict=BY_ID).attempts == 2
    assert len(calls) == 1
    assert _rows(shared_lake, table)[1] == (1, "ours")


def test_many_writers_of_the_same_keys_all_get_through(shared_lake: lw.Lake, table: str) -> None:
    def work(number: int) -> None:
        with _begin(shared_lake) as tx:
            tx.overwrite(
                table, _data([(1, f"{number}"), (number + 100, "own")]), where="id = 1 OR id >= 100"
            )

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(6)))

    rows = _rows(shared_lake, table)
    assert len([r for r in rows if r[0] == 1]) == 1
    assert len({n for n, _ in rows}) == len(rows)


_KEYS = st.integers(0, 4)
_WORK = st.lists(
    st.one_of(
        st.tuples(st.just("delete"), _KEYS, _KEYS),
        st.tuples(st.just("put"), _KEYS, _KEYS),
    ),
    min_size=1,
    max_size=3,
)


def _do(tx: lw.Transaction, table: str, work: list[tuple[str, int, int]], who: str) -> None:
    for kind, a, b in work:
        where = f"id IN ({a}, {b})"
        if kind == "delete":
            tx.delete(table, where=where)
        else:
            tx.overwrite(table, _data((n, who) for n in {a, b}), where=where)


def _model(state: dict[int, str], work: list[tuple[str, int, int]], who: str) -> dict[int, str]:
    out = dict(state)
    for kind, a, b in work:
        for n in (a, b):
            out.pop(n, None)
            if kind == "put":
                out[n] = who
    return out


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    base=st.sets(_KEYS),
    ours=_WORK,
    theirs=st.lists(_WORK, min_size=1, max_size=2),
)
def test_the_outcome_is_what_the_definition_says(
    shared_lake: lw.Lake,
    new_name: Callable[[], str],
    base: set[int],
    ours: list[tuple[str, int, int]],
    theirs: list[list[tuple[str, int, int]]],
) -> None:
    table = new_name()
    shared_lake.create(table, {"id": "int64", "v": "string"})
    start = dict.fromkeys(sorted(base), "base")
    append(shared_lake, table, _data(start.items()))
    tx = _begin(shared_lake)
    _do(tx, table, ours, "ours")
    state = start
    for number, work in enumerate(theirs):
        with shared_lake.transaction() as other:
            _do(other, table, work, f"other {number}")
        state = _model(state, work, f"other {number}")
    tx.commit()

    left = _model(start, ours, "ours")
    # A key is touched when it was written, or was there to be removed.
    touched = {n for kind, a, b in ours for n in (a, b) if kind == "put" or n in start}
    expected = {n: v for n, v in state.items() if n not in touched}
    expected |= {n: left[n] for n in touched if n in left}
    assert dict(_rows(shared_lake, table)) == expected
    assert len(_rows(shared_lake, table)) == len(expected)
