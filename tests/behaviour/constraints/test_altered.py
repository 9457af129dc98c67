"""Keys of tables that are altered: added to rows that are there, dropped, renamed and kept."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest

import lakeward as lw
from lakeward.errors import Conflict, ConstraintViolation, InvalidInput, TableNotFound
from lakeward.write.keys.declare import check_references
from lakeward.write.tables import create
from lakeward.write.transaction import lifecycle
from tests.behaviour.lakes import append, delete, ids, unchanged


@pytest.fixture
def table(shared_lake: lw.Lake, name: str) -> lw.Table:
    made = shared_lake.create(name, {"id": "int64", "note": "string"})
    append(shared_lake, name, {"id": [1, 2, 3], "note": ["a", "b", "c"]})
    return made


def test_a_key_is_added_to_rows_that_have_it(shared_lake: lw.Lake, table: lw.Table) -> None:
    table.alter(message="ids are unique").add_constraint("key", lw.Unique("id")).commit()

    assert table.constraints == {"key": lw.Unique("id")}
    with pytest.raises(ConstraintViolation):
        append(shared_lake, table.name, {"id": [3], "note": ["x"]})
    append(shared_lake, table.name, {"id": [4], "note": ["x"]})
    assert table.at(version=1).definition.properties.get("lakeward.unique.key") is None


@pytest.mark.parametrize("reaction", ["fail", "quarantine"])
def test_a_key_that_rows_violate_is_not_added(
    shared_lake: lw.Lake, table: lw.Table, reaction: str
) -> None:
    append(shared_lake, table.name, {"id": [3, 9], "note": ["x", "y"]})

    with pytest.raises(ConstraintViolation) as caught:
        table.alter().add_constraint("key", lw.Unique("id", on_violation=reaction)).commit()

    assert (caught.value.count, caught.value.sample) == (1, [{"id": 3}])
    assert table.constraints == {}


def test_rows_of_the_same_transaction_count(shared_lake: lw.Lake, table: lw.Table) -> None:
    tx = shared_lake.transaction()
    tx.append(table.name, {"id": [1], "note": ["x"]})
    tx.alter(table.name).add_constraint("key", lw.Unique("id"))
    with pytest.raises(ConstraintViolation):
        tx.commit()
    with shared_lake.transaction() as tx:
        tx.delete(table.name, where="id = 1")
        tx.append(table.name, {"id": [1], "note": ["x"]})
        tx.alter(table.name).add_constraint("key", lw.Unique("id"))

    assert ids(shared_lake, table.name) == [1, 2, 3]


def test_an_append_that_began_before_the_key_was_added_conflicts(
    shared_lake: lw.Lake, table: lw.Table
) -> None:
    tx = shared_lake.transaction()
    tx.append(table.name, {"id": [3], "note": ["x"]})
    table.alter().add_constraint("key", lw.Unique("id")).commit()

    with pytest.raises((Conflict, ConstraintViolation)):
        tx.commit()

    assert ids(shared_lake, table.name) == [1, 2, 3]


def test_a_key_that_is_dropped_allows_everything(shared_lake: lw.Lake, table: lw.Table) -> None:
    table.alter().add_constraint("key", lw.Unique("id")).commit()
    with pytest.raises(InvalidInput, match="drop_constraint"):
        table.alter().unset_property("lakeward.unique.key").commit()
    table.alter().drop_constraint("key").commit()

    append(shared_lake, table.name, {"id": [3], "note": ["x"]})

    assert ids(shared_lake, table.name) == [1, 2, 3, 3]


def test_a_column_of_a_key_is_renamed_and_not_dropped(shared_lake: lw.Lake, name: str) -> None:
    key = {"key": lw.Unique("id", "n")}
    table = shared_lake.create(name, {"id": "int64", "n": "int32"}, constraints=key)
    append(shared_lake, name, {"id": [1, 1], "n": [1, 2]})

    table.alter().rename_column("id", "number").commit()
    with pytest.raises(InvalidInput, match="key"):
        table.alter().drop_column("number").commit()

    assert table.constraints == {"key": lw.Unique("number", "n")}
    append(shared_lake, name, {"number": [1], "n": [3]})
    with pytest.raises(ConstraintViolation):
        append(shared_lake, name, {"number": [1], "n": [2]})


def test_a_foreign_key_is_added_and_keeps_what_it_refers_to(
    shared_lake: lw.Lake, table: lw.Table, new_name: Callable[[], str]
) -> None:
    orders = shared_lake.create(new_name(), {"customer": "int64"})
    append(shared_lake, orders.name, {"customer": [1, 7]})
    foreign = lw.ForeignKey("customer", references=table.name, key="id")
    with pytest.raises(InvalidInput, match="no unique key"):
        orders.alter().add_constraint("customer", foreign).commit()
    table.alter().add_constraint("key", lw.Unique("id")).commit()
    with pytest.raises(ConstraintViolation) as caught:
        orders.alter().add_constraint("customer", foreign).commit()
    assert caught.value.sample == [{"customer": 7}]
    delete(shared_lake, orders.name, "customer = 7")
    orders.alter().add_constraint("customer", foreign).commit()

    with pytest.raises(ConstraintViolation):
        delete(shared_lake, table.name, "id = 1")
    with unchanged(shared_lake):
        with pytest.raises(InvalidInput, match="customer"):
            table.alter().drop_constraint("key").commit()
        with pytest.raises(InvalidInput, match="customer"):
            table.alter().rename_column("id", "number").commit()
    orders.alter().drop_constraint("customer").commit()
    table.alter().drop_constraint("key").commit()
    delete(shared_lake, table.name, "id = 1")


@contextmanager
def at_the_next_commit(lake: lw.Lake, act: Callable[[], object]) -> Generator[None]:
    """Act once between the checks and the ratification of the next commit."""

    def hook(_: lw.StagedCommit) -> None:
        lake.hooks.remove(hook)
        act()

    lake.hooks.before_commit(hook)
    yield
    assert hook not in lake.hooks.functions


def test_a_unique_key_is_not_added_while_others_add_a_new_key_twice(
    shared_lake: lw.Lake, table: lw.Table
) -> None:
    twice = {"id": [9, 9], "note": ["x", "y"]}
    with (
        at_the_next_commit(shared_lake, lambda: append(shared_lake, table.name, twice)),
        pytest.raises(ConstraintViolation) as caught,
    ):
        table.alter().add_constraint("key", lw.Unique("id")).commit()

    assert caught.value.sample == [{"id": 9}]
    assert (table.constraints, ids(shared_lake, table.name)) == ({}, [1, 2, 3, 9, 9])


def test_a_foreign_key_is_not_added_while_others_add_rows_without_a_parent(
    shared_lake: lw.Lake, table: lw.Table, new_name: Callable[[], str]
) -> None:
    table.alter().add_constraint("key", lw.Unique("id")).commit()
    orders = shared_lake.create(new_name(), {"customer": "int64"})
    append(shared_lake, orders.name, {"customer": [1]})
    foreign = lw.ForeignKey("customer", references=table.name, key="id")

    with (
        at_the_next_commit(
            shared_lake, lambda: append(shared_lake, orders.name, {"customer": [77]})
        ),
        pytest.raises(ConstraintViolation) as caught,
    ):
        orders.alter().add_constraint("customer", foreign).commit()

    assert caught.value.sample == [{"customer": 77}]
    assert orders.constraints == {}


def test_a_tolerant_check_counts_rows_that_others_add_while_it_is_added(
    shared_lake: lw.Lake, table: lw.Table
) -> None:
    few = lw.Check("id < 9", on_violation="warn")
    more = {"id": [9], "note": ["x"]}
    with at_the_next_commit(shared_lake, lambda: append(shared_lake, table.name, more)):
        table.alter().add_constraint("few", few).commit()

    assert [v.sample[0]["id"] for v in shared_lake.violations(table=table.name)] == [9]


@pytest.mark.parametrize("by", ["drop", "drop_constraint"])
def test_a_foreign_key_of_an_empty_table_needs_a_parent_that_stays(
    shared_lake: lw.Lake, table: lw.Table, new_name: Callable[[], str], by: str
) -> None:
    table.alter().add_constraint("key", lw.Unique("id")).commit()
    orders = shared_lake.create(new_name(), {"customer": "int64"})
    foreign = lw.ForeignKey("customer", references=table.name, key="id")
    acts: dict[str, Callable[[], object]] = {
        "drop": lambda: shared_lake.drop(table.name),
        "drop_constraint": lambda: table.alter().drop_constraint("key").commit(),
    }

    with (
        at_the_next_commit(shared_lake, acts[by]),
        pytest.raises((InvalidInput, TableNotFound), match=r"no unique key|dropped meanwhile"),
    ):
        orders.alter().add_constraint("customer", foreign).commit()

    assert orders.constraints == {}
    append(shared_lake, orders.name, {"customer": [1]})


def test_a_foreign_key_of_a_new_table_needs_a_parent(
    shared_lake: lw.Lake, table: lw.Table, new_name: Callable[[], str]
) -> None:
    table.alter().add_constraint("key", lw.Unique("id")).commit()
    names = {references: new_name() for references in (table.name, "space.none")}
    for references, own in names.items():
        tx = shared_lake.transaction()
        tx.create(own, {"customer": "int64"})
        foreign = lw.ForeignKey("customer", references=references, key="id")
        tx.alter(own).add_constraint("customer", foreign)
        shared_lake.drop(table.name)
        with pytest.raises((InvalidInput, TableNotFound), match=r"not there|dropped meanwhile"):
            tx.commit()
        shared_lake.undrop(table.name)
        assert own not in [t.name for t in shared_lake.tables()]


def test_a_table_that_is_made_needs_a_parent_that_stays(
    shared_lake: lw.Lake,
    table: lw.Table,
    new_name: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table.alter().add_constraint("key", lw.Unique("id")).commit()
    own = new_name()
    foreign = lw.ForeignKey("customer", references=table.name, key="id")

    def then_drop(*given: Any, **options: Any) -> None:
        monkeypatch.undo()
        check_references(*given, **options)
        shared_lake.drop(table.name)

    monkeypatch.setattr(create, "check_references", then_drop)
    with pytest.raises((InvalidInput, TableNotFound), match=r"not there|dropped meanwhile"):
        shared_lake.create(own, {"customer": "int64"}, constraints={"customer": foreign})

    assert own not in [t.name for t in shared_lake.tables()]


def test_a_key_that_others_overtake_again_and_again_is_not_checked_for_ever(
    shared_lake: lw.Lake, table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "_RESOLVED", 2)
    new = iter(range(10, 100))

    def hook(staged: lw.StagedCommit) -> None:
        if staged.tables[table.name].new_definition is not None:
            append(shared_lake, table.name, {"id": [next(new)], "note": ["x"]})

    tx = shared_lake.transaction()
    tx.alter(table.name).add_constraint("key", lw.Unique("id"))
    shared_lake.hooks.before_commit(hook)
    try:
        with pytest.raises(Conflict, match="checks"):
            tx.commit()
    finally:
        shared_lake.hooks.remove(hook)

    assert (table.constraints, ids(shared_lake, table.name)) == ({}, [1, 2, 3, 10, 11, 12])


def test_a_key_is_added_while_others_add_and_move_rows_that_have_it(
    shared_lake: lw.Lake, table: lw.Table
) -> None:
    def act() -> None:
        append(shared_lake, table.name, {"id": [9], "note": ["x"]})
        table.optimize()

    with at_the_next_commit(shared_lake, act):
        table.alter().add_constraint("key", lw.Unique("id")).commit()

    assert table.constraints == {"key": lw.Unique("id")}
    with pytest.raises(ConstraintViolation):
        append(shared_lake, table.name, {"id": [9], "note": ["x"]})


def test_a_check_that_only_warns_is_added(shared_lake: lw.Lake, table: lw.Table) -> None:
    table.alter().add_constraint("few", lw.Check("id < 3", on_violation="warn")).commit()

    append(shared_lake, table.name, {"id": [9], "note": ["x"]})

    found = shared_lake.violations(table=table.name)
    assert [(v.constraint, v.count, v.sample[0]["id"]) for v in found] == [
        ("few", 1, 9),
        ("few", 1, 3),
    ]
