"""A function of the user settles conflicts: what it is told, and what each answer does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lakeward as lw
from lakeward.errors import Conflict, ConstraintViolation, InvalidInput
from tests.behaviour.lakes import append, column, data_files, delete, ids, overwrite, unchanged


@pytest.fixture
def table(shared_lake: lw.Lake, name: str) -> str:
    shared_lake.create(name, {"id": "int64"}, constraints={"small": "id < 1000"})
    append(shared_lake, name, {"id": [1, 2, 3]})
    return name


def _lost(lake: lw.Lake, table: str, answer: Callable[[lw.Collision], Any]) -> lw.Transaction:
    """A transaction that has deleted a row of a file which somebody else has rewritten since."""
    tx = lake.transaction(on_conflict=answer)
    tx.delete(table, where="id = 1")
    tx.append(table, {"id": [10]})
    delete(lake, table, "id = 3")
    append(lake, table, {"id": [4]})
    return tx


def test_the_function_is_told_all_there_is_to_know(shared_lake: lw.Lake, table: str) -> None:
    told: list[lw.Collision] = []

    def look(found: lw.Collision) -> str:
        told.append(found)
        assert column(found.read_base()) == [1, 2, 3]
        assert column(found.read_theirs()) == [1, 2, 4]
        assert column(found.read_ours()) == [2, 3, 10]
        assert column(found.read_ours(columns=["id"], where="id > 2")) == [3, 10]
        return "fail"

    tx = _lost(shared_lake, table, look)
    with pytest.raises(Conflict):
        tx.commit()

    (found,) = told
    assert (found.table, found.base_version, found.version) == (table, 1, 3)
    assert (found.kind, found.operation) == ("removed", "TRANSACTION")
    assert found.transaction_id == tx.transaction_id
    assert [(c.version, c.operation) for c in found.commits] == [(2, "DELETE"), (3, "WRITE")]


def test_fail_commits_nothing(shared_lake: lw.Lake, table: str) -> None:
    tx = _lost(shared_lake, table, lambda _: "fail")
    with pytest.raises(Conflict):
        tx.commit()

    assert ids(shared_lake, table) == [1, 2, 4]


def test_theirs_drops_our_change_of_that_table_and_keeps_the_rest(
    shared_lake: lw.Lake, table: str, new_name: Callable[[], str]
) -> None:
    other = new_name()
    shared_lake.create(other, {"id": "int64"})
    tx = _lost(shared_lake, table, lambda _: "theirs")
    tx.append(other, {"id": [7]})
    result = tx.commit()

    assert dict(result.versions) == {other: 1}
    assert (ids(shared_lake, table), ids(shared_lake, other)) == ([1, 2, 4], [7])
    assert shared_lake.table(table).version == 3
    known = {f.path for v in range(4) for f in shared_lake.table(table).at(version=v).files()}
    assert data_files(shared_lake, table) == known


def test_theirs_with_nothing_else_to_commit_commits_nothing(
    shared_lake: lw.Lake, table: str
) -> None:
    result = _lost(shared_lake, table, lambda _: "theirs").commit()

    assert dict(result.versions) == {}
    assert shared_lake.table(table).version == 3
    assert shared_lake.outcome(result.transaction_id).state.value == "rolled_back"


def test_ours_is_done_again_on_the_newest_version(shared_lake: lw.Lake, table: str) -> None:
    result = _lost(shared_lake, table, lambda _: "ours").commit()

    assert ids(shared_lake, table) == [2, 4, 10]
    assert result.attempts == 2


@pytest.mark.parametrize(
    ("where", "expected"), [(None, [20, 21]), ("id = 2 OR id >= 20", [1, 4, 20, 21])]
)
def test_new_rows_replace_what_the_answer_says(
    shared_lake: lw.Lake, table: str, where: str | None, expected: list[int]
) -> None:
    answer = lw.Replace({"id": [20, 21]}, where=where)
    _lost(shared_lake, table, lambda _: answer).commit()

    assert ids(shared_lake, table) == expected
    newest = shared_lake.table(table).history(limit=1)[0]
    assert (newest.operation, newest.parameters["mode"]) == ("WRITE", "Overwrite")


def test_new_rows_are_checked_like_any_others(shared_lake: lw.Lake, table: str) -> None:
    tx = _lost(shared_lake, table, lambda _: lw.Replace({"id": [1000]}))
    with pytest.raises(ConstraintViolation):
        tx.commit()

    assert ids(shared_lake, table) == [1, 2, 4]
    known = {f.path for v in range(4) for f in shared_lake.table(table).at(version=v).files()}
    assert data_files(shared_lake, table) == known


def test_a_merge_of_three_sides_is_a_few_lines(shared_lake: lw.Lake, table: str) -> None:
    def merge(found: lw.Collision) -> lw.Replace:
        base, theirs, ours = (
            set(side["id"].to_pylist())
            for side in (found.read_base(), found.read_theirs(), found.read_ours())
        )
        kept = (theirs | ours) - (base - theirs) - (base - ours)
        return lw.Replace({"id": sorted(kept)})

    _lost(shared_lake, table, merge).commit()

    assert ids(shared_lake, table) == [2, 4, 10]


@pytest.mark.parametrize("answer", ["theirs", "ours", lw.Replace({"id": [20]})])
def test_progress_is_kept_whatever_becomes_of_the_rows(
    shared_lake: lw.Lake, table: str, answer: Any
) -> None:
    """Else the application would bring the same rows again."""
    tx = _lost(shared_lake, table, lambda _: answer)
    tx.record(table, "loader", 7)
    result = tx.commit()

    assert shared_lake.table(table).app_version("loader") == 7
    assert result.versions[table] == shared_lake.table(table).version == 4
    expected = {"theirs": [1, 2, 4], "ours": [2, 4, 10]}.get(str(answer), [20])
    assert ids(shared_lake, table) == expected


def test_it_is_asked_again_when_others_come_again(shared_lake: lw.Lake, table: str) -> None:
    versions: list[int] = []

    def answer(found: lw.Collision) -> str:
        versions.append(found.version)
        if len(versions) == 1:
            delete(shared_lake, table, "id = 2")
        return "ours"

    _lost(shared_lake, table, answer).commit()

    assert versions == [3, 4]
    assert ids(shared_lake, table) == [4, 10]


def test_it_is_not_asked_without_a_conflict(shared_lake: lw.Lake, table: str) -> None:
    def never(found: lw.Collision) -> str:
        raise AssertionError(found)

    with shared_lake.transaction(on_conflict=never) as tx:
        tx.delete(table, where="id = 1")
        append(shared_lake, table, {"id": [500]})

    assert ids(shared_lake, table) == [2, 3, 500]


@pytest.mark.parametrize("answer", [None, "maybe", 7, {"id": [1]}])
def test_what_is_no_answer_ends_the_transaction(
    shared_lake: lw.Lake, table: str, answer: Any
) -> None:
    tx = _lost(shared_lake, table, lambda _: answer)
    with pytest.raises(InvalidInput):
        tx.commit()

    assert ids(shared_lake, table) == [1, 2, 4]
    assert not tx.is_open


def test_an_error_of_the_function_passes_through_and_commits_nothing(
    shared_lake: lw.Lake, table: str
) -> None:
    def fails(_: lw.Collision) -> str:
        raise ZeroDivisionError

    tx = _lost(shared_lake, table, fails)
    with pytest.raises(ZeroDivisionError):
        tx.commit()
    assert ids(shared_lake, table) == [1, 2, 4]


@pytest.mark.parametrize(("answer", "calls"), [("retry", 2), ("fail", 1)])
def test_in_a_run_the_answer_decides_whether_the_function_runs_again(
    shared_lake: lw.Lake, table: str, answer: str, calls: int
) -> None:
    made: list[int] = []

    def work(tx: lw.Transaction) -> None:
        made.append(1)
        tx.delete(table, where="id = 1")
        if len(made) == 1:
            delete(shared_lake, table, "id = 3")

    def run() -> lw.CommitResult:
        return shared_lake.run(work, on_conflict=lambda _: answer)

    if answer == "retry":
        assert run().attempts == 2
        assert ids(shared_lake, table) == [2]
    else:
        with pytest.raises(Conflict):
            run()
        assert ids(shared_lake, table) == [1, 2]
    assert len(made) == calls


def test_a_run_that_shall_fail_is_not_run_again(shared_lake: lw.Lake, table: str) -> None:
    made: list[int] = []

    def work(tx: lw.Transaction) -> None:
        made.append(1)
        tx.delete(table, where="id = 1")
        delete(shared_lake, table, "id = 3")

    with pytest.raises(Conflict):
        shared_lake.run(work, on_conflict="fail")
    assert len(made) == 1


@pytest.mark.before_the_store
@pytest.mark.parametrize("wanted", ["retry", "nonsense", 7, lw.LastWriterWins, {"t": "retry"}])
def test_what_makes_no_sense_is_refused_at_once(shared_lake: lw.Lake, wanted: Any) -> None:
    with unchanged(shared_lake), pytest.raises(InvalidInput) as caught:
        shared_lake.transaction(on_conflict=wanted)
    assert caught.value.parameter == "on_conflict"


@pytest.mark.before_the_store
@pytest.mark.parametrize("level", ["read_committed", "serializable"])
def test_levels_that_it_makes_no_sense_with_are_refused(shared_lake: lw.Lake, level: str) -> None:
    with unchanged(shared_lake), pytest.raises(InvalidInput):
        shared_lake.run(lambda _: None, isolation=level, on_conflict=lambda _: "ours")


def test_a_file_that_was_named_cannot_be_removed_again_from_another_version(
    shared_lake: lw.Lake, table: str
) -> None:
    (path,) = [f.path for f in shared_lake.table(table).files()]
    tx = shared_lake.transaction(on_conflict=lambda _: "ours")
    tx.remove_files(table, [path])
    overwrite(shared_lake, table, {"id": [9]})

    with pytest.raises(Conflict):
        tx.commit()
    assert ids(shared_lake, table) == [9]
