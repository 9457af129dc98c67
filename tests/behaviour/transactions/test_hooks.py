"""Commit hooks: what they see, when they are called, and that they can refuse."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

import lakeward as lw
from lakeward.errors import ConstraintViolation, InvalidInput, Refused
from lakeward.model import steps
from tests.behaviour.lakes import append, column, delete, ids, overwrite, unchanged
from tests.support.inside import context_of


@pytest.fixture
def table(shared_lake: lw.Lake, name: str) -> str:
    shared_lake.create(name, {"id": "int64", "p": "string"}, partition_by=["p"])
    append(shared_lake, name, {"id": [1, 2, 3], "p": ["a", "a", "b"]})
    return name


@contextmanager
def _hooked(lake: lw.Lake, hook: Callable[[lw.StagedCommit], Any]) -> Generator[None]:
    lake.hooks.before_commit(hook)
    try:
        yield
    finally:
        lake.hooks.remove(hook)


def test_a_hook_sees_what_is_about_to_happen(
    shared_lake: lw.Lake, table: str, new_name: Callable[[], str]
) -> None:
    other = new_name()
    shared_lake.create(other, {"n": "int64"})
    seen: list[lw.StagedCommit] = []

    def look(staged: lw.StagedCommit) -> None:
        seen.append(staged)
        assert column(staged.tables[table].read()) == [2, 10]
        assert column(staged.tables[table].read(columns=["id"], where="id > 5")) == [10]
        assert column(staged.tables[other].read(), "n") == [7]
        assert ids(shared_lake, table) == [1, 2, 3]

    with (
        _hooked(shared_lake, look),
        shared_lake.transaction(isolation="serializable", message="why") as tx,
    ):
        tx.delete(table, where="id IN (1, 3)")
        tx.append(table, {"id": [10], "p": ["c"]})
        tx.append(other, {"n": [7]})
        tx.read(other)

    (staged,) = seen
    assert (staged.transaction_id, staged.attempts) == (tx.transaction_id, 1)
    assert (staged.isolation.value, staged.message) == ("serializable", "why")
    assert staged.actor == context_of(shared_lake).actor
    changed = staged.tables[table]
    assert (changed.base_version, changed.operation) == (1, "TRANSACTION")
    assert (len(changed.added), len(changed.removed)) == (2, 2)
    assert sorted(f.rows or 0 for f in changed.added) == [1, 1]
    assert all(f.stats is not None for f in changed.added)
    assert changed.metrics["numRemovedFiles"] == 2
    assert changed.new_definition is None
    assert changed.definition.schema.names == ["id", "p"]


def test_what_a_hook_sees_cannot_be_changed(shared_lake: lw.Lake, table: str) -> None:
    def meddle(staged: lw.StagedCommit) -> None:
        with pytest.raises(FrozenInstanceError):
            staged.message = "other"  # type: ignore[misc]
        with pytest.raises(FrozenInstanceError):
            staged.tables[table].added = ()  # type: ignore[misc]
        with pytest.raises(TypeError):
            staged.tables["x"] = staged.tables[table]  # type: ignore[index]
        with pytest.raises(TypeError):
            staged.tables[table].parameters["x"] = 1  # type: ignore[index]

    with _hooked(shared_lake, meddle):
        append(shared_lake, table, {"id": [4], "p": ["a"]})
    assert ids(shared_lake, table) == [1, 2, 3, 4]


def test_a_hook_that_refuses_keeps_all_tables_back(
    shared_lake: lw.Lake, table: str, new_name: Callable[[], str]
) -> None:
    other = new_name()
    shared_lake.create(other, {"n": "int64"})

    def refuse(staged: lw.StagedCommit) -> None:
        what = "Not on a Friday."
        raise Refused(what, rule="friday", tables=sorted(staged.tables))

    with _hooked(shared_lake, refuse), unchanged(shared_lake):
        tx = shared_lake.transaction()
        tx.append(table, {"id": [4], "p": ["a"]})
        tx.append(other, {"n": [1]})
        with pytest.raises(Refused) as caught:
            tx.commit()

    assert caught.value.what == "Not on a Friday."
    assert (caught.value.rule, caught.value.transaction_id) == ("friday", tx.transaction_id)
    assert caught.value.tables == sorted([table, other])
    assert not caught.value.retryable
    assert not tx.is_open
    assert shared_lake.outcome(tx.transaction_id).state.value == "rolled_back"


def test_a_hook_that_fails_refuses_and_its_error_is_the_cause(
    shared_lake: lw.Lake, table: str
) -> None:
    def broken(_: lw.StagedCommit) -> None:
        raise ZeroDivisionError

    with _hooked(shared_lake, broken), unchanged(shared_lake), pytest.raises(Refused) as caught:
        append(shared_lake, table, {"id": [4], "p": ["a"]})
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert "broken" in caught.value.hook


def test_an_interrupt_in_a_hook_stays_one_and_commits_nothing(
    shared_lake: lw.Lake, table: str
) -> None:
    def interrupted(_: lw.StagedCommit) -> None:
        raise KeyboardInterrupt

    with (
        _hooked(shared_lake, interrupted),
        unchanged(shared_lake),
        pytest.raises(KeyboardInterrupt),
    ):
        append(shared_lake, table, {"id": [4], "p": ["a"]})


def test_a_refused_run_is_not_run_again(shared_lake: lw.Lake, table: str) -> None:
    calls: list[int] = []

    def refuse(staged: lw.StagedCommit) -> None:
        calls.append(staged.attempts)
        what = "No."
        raise Refused(what)

    with _hooked(shared_lake, refuse), pytest.raises(Refused):
        shared_lake.run(lambda tx: tx.append(table, {"id": [4], "p": ["a"]}))
    assert calls == [1]


def test_a_hook_is_called_once_for_every_attempt(shared_lake: lw.Lake, table: str) -> None:
    attempts: list[int] = []

    def work(tx: lw.Transaction) -> None:
        tx.delete(table, where="id = 1")
        if len(attempts) < 2:
            with shared_lake.transaction(isolation="read_committed") as other:
                other.overwrite(table, {"id": [1], "p": ["a"]}, where="id = 1")

    def count(staged: lw.StagedCommit) -> None:
        if staged.tables[table].operation == "DELETE":
            attempts.append(staged.attempts)

    with _hooked(shared_lake, count):
        shared_lake.run(work)
    assert attempts == [1, 2, 3]


def test_a_hook_sees_the_change_as_it_was_settled(shared_lake: lw.Lake, table: str) -> None:
    seen: list[tuple[int, list[int]]] = []

    def look(staged: lw.StagedCommit) -> None:
        if staged.isolation.value == "read_committed":
            found = staged.tables[table]
            seen.append((found.base_version, column(found.read())))

    with _hooked(shared_lake, look):
        tx = shared_lake.transaction(isolation="read_committed")
        tx.delete(table, where="id = 1")
        overwrite(shared_lake, table, {"id": [1, 2, 9], "p": ["a"] * 3}, where="p = 'a'")
        tx.commit()
    assert seen == [(1, [2]), (2, [2, 9])]
    assert ids(shared_lake, table) == [2, 3, 9]


def test_a_hook_may_use_the_lake(shared_lake: lw.Lake, table: str, name: str) -> None:
    """No database transaction is open meanwhile, so it cannot wait for itself."""
    log = f"{name}_log"
    shared_lake.create(log, {"transaction": "string"})

    def write_down(staged: lw.StagedCommit) -> None:
        if log not in staged.tables:
            append(shared_lake, log, {"transaction": [staged.transaction_id]})

    with _hooked(shared_lake, write_down), shared_lake.transaction() as tx:
        tx.append(table, {"id": [4], "p": ["a"]})

    assert shared_lake.table(log).to_arrow().to_pylist() == [{"transaction": tx.transaction_id}]


def test_hooks_are_called_after_validation_and_before_ratification(
    shared_lake: lw.Lake, table: str
) -> None:
    reached: list[str] = []

    def note(_: lw.StagedCommit) -> None:
        reached.append("hook")

    steps.observe(reached.append)
    try:
        with _hooked(shared_lake, note):
            append(shared_lake, table, {"id": [4], "p": ["a"]})
    finally:
        steps.observe(None)
    place = reached.index("hook")
    assert reached[place - 1] == "stage.done"
    assert "ratify.locked" in reached[place:]


def test_rows_that_a_check_refuses_never_reach_a_hook(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, {"id": "int64"}, constraints={"positive": "id > 0"})
    seen: list[lw.StagedCommit] = []
    with _hooked(shared_lake, seen.append), pytest.raises(ConstraintViolation):
        append(shared_lake, name, {"id": [-1]})
    assert seen == []


def test_hooks_are_called_in_their_order_until_they_are_removed(
    shared_lake: lw.Lake, table: str
) -> None:
    called: list[str] = []

    @shared_lake.hooks.before_commit
    def first(_: lw.StagedCommit) -> None:
        called.append("first")

    def second(_: lw.StagedCommit) -> None:
        called.append("second")

    with _hooked(shared_lake, second):
        append(shared_lake, table, {"id": [4], "p": ["a"]})
        shared_lake.hooks.remove(first)
        delete(shared_lake, table, "id = 4")
    assert called == ["first", "second", "second"]


def test_a_transaction_without_changes_calls_no_hook(shared_lake: lw.Lake, table: str) -> None:
    seen: list[lw.StagedCommit] = []
    with _hooked(shared_lake, seen.append), shared_lake.transaction() as tx:
        tx.read(table)
    assert seen == []


@pytest.mark.parametrize("hook", [None, "name", 7])
def test_what_is_no_function_is_refused(shared_lake: lw.Lake, hook: Any) -> None:
    with pytest.raises(InvalidInput):
        shared_lake.hooks.before_commit(hook)
