"""Restoring: older versions come back as new ones, of many tables at once, without a copy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import (
    Conflict,
    ConstraintViolation,
    InvalidInput,
    TableNotFound,
    TransactionNotFound,
    UnsupportedFeature,
    VersionNotFound,
)
from tests.behaviour.lakes import append, ids


@pytest.fixture
def shop(lake: lw.Lake, table_format: str) -> lw.Lake:
    """Two tables with a history: rows 1 to 3, an update, a deletion, an overwrite."""
    for name in ("orders", "items"):
        lake.create(name, {"id": "int64", "note": "string"}, format=table_format)
        append(lake, name, {"id": [1, 2, 3], "note": ["a", "b", "c"]})
    lake.tag("good")
    with lake.transaction() as tx:
        tx.update("orders", set={"note": "'x'"}, where="id = 2")
        tx.delete("items", where="id = 3")
    lake.table("orders").overwrite(pa.table({"id": [9], "note": ["z"]}))
    return lake


def _rows(lake: lw.Lake, name: str) -> list[tuple[int, str]]:
    found = lake.table(name).to_arrow()
    return sorted(zip(found["id"].to_pylist(), found["note"].to_pylist(), strict=True))


def _files(lake: lw.Lake, name: str) -> set[str]:
    return {f.path for f in lake.table(name).files()}


BEGUN = [(1, "a"), (2, "b"), (3, "c")]


@pytest.mark.parametrize("how", ["version", "timestamp", "tag", "transaction"])
def test_a_table_is_restored_to_any_place_as_a_new_version(shop: lw.Lake, how: str) -> None:
    table = shop.table("orders")
    record = table.history()[2]
    place: Any = {
        "version": 1,
        "timestamp": record.timestamp,
        "tag": "good",
        "transaction": record.transaction_id,
    }[how]
    before = table.at(version=1)
    result = table.restore(**{how: place}, message="wrong prices")
    assert result.versions == {"orders": 4}
    assert _rows(shop, "orders") == BEGUN
    assert _files(shop, "orders") == {f.path for f in before.files()}
    newest = table.history()[0]
    assert (newest.operation, newest.parameters["version"]) == ("RESTORE", "1")
    assert newest.message == "wrong prices"
    assert table.at(version=3).to_arrow()["id"].to_pylist() == [9]
    assert shop.doctor().findings == ()


def test_all_tables_go_back_to_one_cut_in_one_transaction(shop: lw.Lake) -> None:
    shop.create("later", {"id": "int64"})
    planned = shop.restore(at="good", dry_run=True)
    assert [t.table for t in planned.tables] == ["items", "orders"]
    assert planned.skipped == (("later", "made later"),)
    orders = planned.tables[1]
    assert (orders.version, orders.to_version, orders.rows_added, orders.rows_removed) == (
        *(3, 1),
        *(3, 1),
    )
    then, now = (shop.table("orders").at(version=v).files() for v in (1, 3))
    assert set(orders.added_files) == {f.path for f in then} - {f.path for f in now}
    assert set(orders.removed_files) == {f.path for f in now} - {f.path for f in then}
    assert len(orders.added_files) == orders.files_added
    assert shop.table("orders").version == 3
    result = shop.restore(at="good")
    assert result.versions == {"items": 3, "orders": 4}
    assert result.value == planned
    assert _rows(shop, "orders") == _rows(shop, "items") == BEGUN
    again = shop.restore(at="good")
    assert again.versions == {}
    assert again.value.unchanged == ("items", "orders")
    with pytest.raises(TableNotFound, match="had no such table then"):
        shop.restore(at="good", tables=["later"])


def test_a_restore_is_restored_and_files_that_come_and_go_are_not_doubled(shop: lw.Lake) -> None:
    table = shop.table("orders")
    for version, rows in ((1, BEGUN), (3, [(9, "z")]), (1, BEGUN), (0, []), (2, None)):
        table.restore(version=version)
        expected = table.at(version=version).to_arrow()
        if rows is not None:
            assert _rows(shop, "orders") == rows
        assert table.to_arrow().sort_by("id") == expected.sort_by("id")
        assert len(_files(shop, "orders")) == len(table.files())
    table.restore(version=1)
    append(shop, "orders", {"id": [7], "note": ["n"]})
    # The file of version 1 is there again, under another version: it neither comes nor goes.
    again = table.restore(version=1).value
    assert (again.files_added, again.files_removed) == (0, 1)
    assert append(shop, "orders", {"id": [8], "note": ["n"]}) == table.version
    assert shop.doctor().findings == ()


def test_columns_properties_and_constraints_come_back(lake: lw.Lake, table_format: str) -> None:
    table = lake.create(
        "t",
        {"id": "int64", "a": "int32", "b": "string"},
        format=table_format,
        constraints={"positive": "id > 0"},
        properties={"owner": "me"},
    )
    append(lake, "t", {"id": [1], "a": [5], "b": ["x"]})
    before = table.definition
    table.alter().drop_column("b").rename_column("a", "renamed").commit()
    table.alter().add_column("c", "double").set_property("owner", "you").commit()
    table.alter().drop_constraint("positive").commit()
    append(lake, "t", {"id": [-2], "renamed": [6], "c": [0.5]})
    result = table.restore(version=1)
    now = table.definition
    assert result.value.is_evolved
    assert table.schema == before.schema
    assert now.properties["owner"] == "me"
    assert dict(now.constraints) == dict(before.constraints)
    assert table.to_arrow().to_pylist() == [{"id": 1, "a": 5, "b": "x"}]
    with pytest.raises(InvalidInput):
        append(lake, "t", {"id": [-3], "a": [1], "b": ["y"]})
    append(lake, "t", {"id": [3], "a": [7], "b": ["z"]})
    # The id of a column that was added meanwhile is never used again.
    table.alter().add_column("d", "int64").commit()
    assert table.schema.by_name["d"].id > 4
    assert table.at(version=5).to_arrow().num_rows == 2
    assert lake.doctor().findings == ()


def test_a_restore_conflicts_as_an_overwrite_does(shop: lw.Lake) -> None:
    tx = shop.transaction()
    tx.restore("orders", tag="good")
    append(shop, "orders", {"id": [10], "note": ["late"]})
    with pytest.raises(Conflict, match="added rows"):
        tx.commit()
    assert _rows(shop, "orders") == [(9, "z"), (10, "late")]


@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
@pytest.mark.parametrize("then", [None, {"id": [11], "note": ["own"]}])
def test_a_restore_to_the_state_of_now_conflicts_too(
    shop: lw.Lake, isolation: str, then: dict[str, list[Any]] | None
) -> None:
    before = _rows(shop, "orders")
    tx = shop.transaction(isolation=isolation)
    tx.read("orders", where="id < 0")  # other rows than those that others add
    tx.restore("orders", version=shop.table("orders").version)
    if then is not None:
        tx.append("orders", then)
    append(shop, "orders", {"id": [10], "note": ["late"]})
    with pytest.raises(Conflict, match="requires the version before"):
        tx.commit()
    assert _rows(shop, "orders") == [*before, (10, "late")]

    version = shop.table("orders").version
    with shop.transaction(isolation=isolation) as tx:
        tx.restore("orders", version=version)
    assert tx.commit().versions == {}
    assert shop.table("orders").version == version


def test_rows_are_changed_after_a_restore_in_the_same_transaction(shop: lw.Lake) -> None:
    with shop.transaction() as tx:
        tx.restore("orders", version=1)
        tx.append("orders", [{"id": 4, "note": "d"}])
        tx.delete("orders", where="id = 1")
        assert sorted(tx.read("orders")["id"].to_pylist()) == [2, 3, 4]
    assert _rows(shop, "orders") == [(2, "b"), (3, "c"), (4, "d")]
    assert shop.doctor().findings == ()


def test_a_restore_that_is_rolled_back_deletes_nothing(shop: lw.Lake) -> None:
    tx = shop.transaction()
    tx.restore("orders", version=1)
    tx.rollback()
    assert shop.table("orders").at(version=1).to_arrow().num_rows == 3
    shop.table("orders").restore(version=1)
    assert _rows(shop, "orders") == BEGUN


@pytest.mark.local
def test_if_a_file_is_gone_nothing_changes_and_the_oldest_version_is_named(
    shop: lw.Lake,
) -> None:
    table = shop.table("orders")
    (lost,) = table.at(version=1).files()
    Path(table.location, lost.path).unlink()
    with pytest.raises(VersionNotFound, match="oldest version that can be restored is 0") as raised:
        shop.restore(at="good")
    assert raised.value.oldest_version == 0
    assert (table.version, shop.table("items").version) == (3, 2)
    (lost,) = table.at(version=2).files()
    Path(table.location, lost.path).unlink()
    with pytest.raises(VersionNotFound, match="restored is 0"):
        table.restore(version=2)
    assert table.restore(version=0).versions == {"orders": 4}
    assert table.count() == 0


@pytest.mark.before_the_store
def test_places_that_are_none_are_refused(shop: lw.Lake) -> None:
    table = shop.table("orders")
    places: list[tuple[dict[str, Any], type[Exception]]] = [
        ({}, InvalidInput),
        ({"version": 99}, VersionNotFound),
        ({"version": -1}, VersionNotFound),
        ({"version": "1"}, InvalidInput),
        ({"version": 1, "tag": "good"}, InvalidInput),
        ({"transaction": "none"}, TransactionNotFound),
        ({"timestamp": "yesterday"}, InvalidInput),
    ]
    for place, error in places:
        with pytest.raises(error):
            table.restore(**place)
    tx = shop.transaction()
    tx.append("orders", [{"id": 1, "note": "n"}])
    with pytest.raises(InvalidInput, match="was changed in this transaction"):
        tx.restore("orders", version=1)
    assert table.version == 3


def test_undo_takes_back_what_one_transaction_did_and_keeps_later_ones(shop: lw.Lake) -> None:
    bad = shop.table("items").history()[0].transaction_id
    append(shop, "items", {"id": [4], "note": ["d"]})
    with pytest.raises(Conflict, match="Version 3") as raised:
        shop.undo(bad)
    assert raised.value.table == "orders"
    overwrite = shop.table("orders").history()[0].transaction_id
    assert shop.undo(overwrite, dry_run=True).tables[0].rows_removed == 1
    assert shop.table("orders").version == 3
    shop.undo(overwrite)
    assert _rows(shop, "orders") == [(1, "a"), (2, "x"), (3, "c")]
    redo = shop.table("orders").history()[0].transaction_id
    shop.undo(redo)
    assert _rows(shop, "orders") == [(9, "z")]
    with pytest.raises(Conflict, match="UNDO"):
        shop.undo(bad)
    shop.undo(shop.table("orders").history()[0].transaction_id)
    shop.undo(bad)
    assert _rows(shop, "orders") == BEGUN
    assert _rows(shop, "items") == [*BEGUN, (4, "d")]
    assert shop.table("orders").history()[0].operation == "UNDO"
    assert shop.doctor().findings == ()


def test_undo_over_two_tables_keeps_later_appends(shop: lw.Lake) -> None:
    with shop.transaction() as tx:
        tx.append("orders", [{"id": 50, "note": "wrong"}])
        tx.delete("items", where="id = 1")
    wrong = tx.transaction_id
    append(shop, "orders", {"id": [60], "note": ["right"]})
    append(shop, "items", {"id": [70], "note": ["right"]})
    result = shop.undo(wrong)
    assert set(result.versions) == {"orders", "items"}
    assert _rows(shop, "orders") == [(9, "z"), (60, "right")]
    assert _rows(shop, "items") == [(1, "a"), (2, "b"), (70, "right")]
    assert shop.table("items").history()[0].message == f"undo of transaction {wrong}"
    assert shop.doctor().findings == ()


def test_undo_brings_a_check_back_only_if_all_rows_satisfy_it(
    lake: lw.Lake, table_format: str
) -> None:
    positive = {"positive": "id > 0"}
    table = lake.create("t", {"id": "int64"}, format=table_format, constraints=positive)
    append(lake, "t", {"id": [1]})
    table.alter().drop_constraint("positive").commit()
    dropped = table.history()[0].transaction_id
    append(lake, "t", {"id": [-1, 2]})

    with pytest.raises(ConstraintViolation, match="positive"):
        lake.undo(dropped)
    assert (table.constraints, table.version) == ({}, 3)
    with lake.transaction() as tx:
        tx.delete("t", where="id < 0")
    done: list[int] = []

    @lake.hooks.before_commit
    def add_another(_: lw.StagedCommit) -> None:
        if not done:
            done.append(1)
            append(lake, "t", {"id": [-3]})

    with pytest.raises((Conflict, ConstraintViolation)):
        lake.undo(dropped)
    with lake.transaction() as tx:
        tx.delete("t", where="id < 0")
    lake.undo(dropped)

    assert (table.constraints, ids(lake, "t")) == (positive, [1, 2])


def test_undo_of_an_alteration_leaves_others_and_conflicts_where_rows_use_it(
    lake: lw.Lake, table_format: str
) -> None:
    table = lake.create("t", {"id": "int64"}, format=table_format, properties={"a": "1"})
    append(lake, "t", {"id": [1]})
    table.alter().set_property("a", "2").commit()
    first = table.history()[0].transaction_id
    table.alter().set_property("b", "3").commit()
    table.alter().add_column("c", "string").commit()
    added = table.history()[0].transaction_id
    lake.undo(first)
    assert {k: table.properties.get(k) for k in ("a", "b")} == {"a": "1", "b": "3"}
    lake.undo(added)
    assert table.schema.names == ["id"]
    lake.undo(table.history()[0].transaction_id)
    append(lake, "t", {"id": [2], "c": ["used"]})
    with pytest.raises(Conflict, match="added rows with the columns"):
        lake.undo(table.history()[1].transaction_id)
    with pytest.raises(Conflict, match="changed a again"):
        lake.undo(first)
    assert lake.doctor().findings == ()


def test_what_cannot_be_undone_says_why(shop: lw.Lake) -> None:
    made = shop.table("orders").history()[-1].transaction_id
    with pytest.raises(UnsupportedFeature, match="is its first"):
        shop.undo(made)
    with pytest.raises(TransactionNotFound):
        shop.undo("nobody")
    wrong = append(shop, "items", {"id": [4], "note": ["d"]})
    by = shop.table("items").history()[0].transaction_id
    assert wrong == 3
    shop.drop("items")
    with pytest.raises(Conflict, match="was dropped"):
        shop.undo(by)


@pytest.mark.local
def test_a_transaction_whose_files_were_vacuumed_in_part_is_not_undone_in_part(
    lake: lw.Lake, table_format: str
) -> None:
    columns = {"id": "int64", "k": "string"}
    table = lake.create("t", columns, format=table_format, partition_by=["k"])
    table.append([{"id": 0, "k": "z"}])
    table.append([{"id": 1, "k": "a"}, {"id": 2, "k": "b"}])
    wrong = table.history(limit=1)[0].transaction_id
    table.delete(where="k = 'a'")
    table.append([{"id": 3, "k": "q"}])
    table.vacuum(retention="0s", force=True)

    with pytest.raises(VersionNotFound, match="Version 2 of t was vacuumed"):
        lake.undo(wrong)

    assert sorted(ids(lake, "t")) == [0, 2, 3]


def test_a_table_that_was_renamed_is_restored_by_its_name_now(shop: lw.Lake) -> None:
    shop.drop("items")
    shop.rename("orders", "items")
    with pytest.raises(TableNotFound, match=r"renamed it since\. Its name is items now"):
        shop.restore(at="good", tables=["orders"])

    planned = shop.restore(at="good", dry_run=True)
    result = shop.restore(at="good", tables=["items"])

    assert planned.skipped == (("items", "dropped since"),)
    assert [(t.table, t.to_version) for t in planned.tables] == [("items", 1)]
    assert result.versions == {"items": 5}
    assert _rows(shop, "items") == BEGUN
