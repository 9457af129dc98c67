"""Keys of tables that are altered: added to rows that are there, dropped, renamed and kept."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import lakeward as lw
from lakeward.errors import Conflict, ConstraintViolation, InvalidInput
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


def test_a_check_that_only_warns_is_added(shared_lake: lw.Lake, table: lw.Table) -> None:
    table.alter().add_constraint("few", lw.Check("id < 3", on_violation="warn")).commit()

    append(shared_lake, table.name, {"id": [9], "note": ["x"]})

    found = shared_lake.violations(table=table.name)
    assert [(v.constraint, v.count, v.sample[0]["id"]) for v in found] == [
        ("few", 1, 9),
        ("few", 1, 3),
    ]
