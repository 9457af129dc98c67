"""Changes across a column that was dropped and came back by a restore."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

import lakeward as lw
from lakeward.errors import UnsupportedFeature
from tests.support.applying import applied, rows_in


def test_changes_tell_that_values_go_and_come_with_their_column(
    lake: lw.Lake, table_format: str
) -> None:
    properties = {"delta.columnMapping.mode": "name"} if table_format == "delta" else None
    table = lake.create("t", "id int64, v int64", format=table_format, properties=properties)
    table.append([{"id": 1, "v": 10}, {"id": 2, "v": None}])
    table.alter().drop_column("v").commit()
    table.append([{"id": 3}])
    with lake.transaction() as tx:
        tx.restore("t", version=1)

    returned = table.changes(since=4, until=4).read_all().select(["_change_type", "id", "v"])
    assert sorted(map(str, returned.to_pylist())) == [
        "{'_change_type': 'delete', 'id': 1, 'v': None}",
        "{'_change_type': 'delete', 'id': 3, 'v': None}",
        "{'_change_type': 'insert', 'id': 1, 'v': 10}",
    ]
    difference = table.diff(2, 4, rows=True, key="id").rows
    assert difference is not None
    assert (difference.inserted, difference.deleted, difference.changed) == (0, 0, 1)
    assert difference.changed_sample[0].new == {"id": 1, "v": 10}
    for since in range(table.version):
        changes = table.changes(since=since + 1, until=table.version).read_all()
        before = rows_in(table, since, table.version)
        assert applied(before, changes) == rows_in(table, table.version, table.version)


@pytest.mark.parametrize(
    ("narrow", "wide", "first", "then"),
    [
        ("float", "double", 0.5, 1e300),
        ("int32", "int64", 1, 2**40),
        ("decimal(4,1)", "decimal(12,1)", Decimal("1.5"), Decimal("12345678.5")),
    ],
)
def test_values_of_a_type_that_was_restored_away_are_whole(
    lake: lw.Lake, table_format: str, narrow: str, wide: str, first: Any, then: Any
) -> None:
    table = lake.create("t", f"id int64, v {narrow}, s struct<v: {narrow}>", format=table_format)
    table.append([{"id": 1, "v": first, "s": {"v": first}}])
    table.alter().change_type("v", wide).change_type("s.v", wide).commit()
    table.append([{"id": 2, "v": then, "s": {"v": then}}])
    with lake.transaction() as tx:
        tx.restore("t", version=1)

    assert str(table.schema.field("v").type) == str(table.at(version=1).schema.field("v").type)
    changes = table.changes(since=1).read_all()
    told = [(r["_commit_version"], r["_change_type"], r["v"], r["s"]) for r in changes.to_pylist()]
    assert told == [
        (1, "insert", first, {"v": first}),
        (3, "insert", then, {"v": then}),
        (4, "delete", then, {"v": then}),
    ]
    assert table.changes(since=1, where="v > 2").read_all()["v"].to_pylist() == [then] * 2
    (last,) = [c for c in lake.changes() if c.tables["t"].version == 4]
    assert last.tables["t"].to_arrow()["v"].to_pylist() == [then]
    back, forth = table.diff(3, 4, rows=True).rows, table.diff(4, 3, rows=True).rows
    assert back is not None
    assert forth is not None
    assert back.deleted_sample == forth.inserted_sample == ({"id": 2, "v": then, "s": {"v": then}},)


@pytest.mark.formats("delta")
def test_types_without_a_common_one_are_refused(lake: lw.Lake) -> None:
    table = lake.create("t", "id int64, v int32")
    table.append([{"id": 1, "v": 1}])
    table.alter().change_type("v", "int64").commit()
    table.append([{"id": 2, "v": 2**62 + 1}])
    with lake.transaction() as tx:
        tx.restore("t", version=1)
    table.alter().change_type("v", "double").commit()

    with pytest.raises(UnsupportedFeature, match=r"'v' of t is double.*int64.*until=4.*since=5"):
        table.changes(since=1)
    assert table.changes(since=1, until=4).read_all()["v"].to_pylist() == [1, *[2**62 + 1] * 2]
    assert table.changes(since=5).read_all().num_rows == 0
    with pytest.raises(UnsupportedFeature, match="no type"):
        table.diff(3, 5, rows=True)


def test_members_of_structs_are_null_while_they_are_dropped(
    lake: lw.Lake, table_format: str
) -> None:
    properties = {"delta.columnMapping.mode": "name"} if table_format == "delta" else None
    schema = "id int64, s struct<a: int64, b: string>, l array<struct<x: int64, y: int64>>"
    table = lake.create("t", schema, format=table_format, properties=properties)
    lists = [[{"x": 1, "y": 2}, None, {"x": None, "y": 3}], []]
    table.append(
        [{"id": 1, "s": {"a": 1, "b": "b"}, "l": lists[0]}, {"id": 2, "s": None, "l": lists[1]}]
    )
    table.alter().drop_column("s.b").drop_column("l.element.y").commit()
    with lake.transaction() as tx:
        tx.delete("t", where="id = 2")
    with lake.transaction() as tx:
        tx.restore("t", version=1)

    found = table.changes(since=2).read_all().select(["_commit_version", "_change_type", "s", "l"])
    had = {"s": {"a": 1, "b": "b"}, "l": lists[0]}
    without = {"s": {"a": 1, "b": None}, "l": [{"x": 1, "y": None}, None, {"x": None, "y": None}]}
    assert found.to_pylist() == [
        {"_commit_version": 2, "_change_type": "delete", **had},
        {"_commit_version": 2, "_change_type": "insert", **without},
        {"_commit_version": 3, "_change_type": "delete", "s": None, "l": []},
        {"_commit_version": 4, "_change_type": "delete", **without},
        {"_commit_version": 4, "_change_type": "insert", **had},
        {"_commit_version": 4, "_change_type": "insert", "s": None, "l": []},
    ]


def test_a_condition_is_tested_on_the_values_that_are_shown(
    lake: lw.Lake, table_format: str
) -> None:
    properties = {"delta.columnMapping.mode": "name"} if table_format == "delta" else None
    schema = "id int64, v int64, s struct<a: int64, b: string>"
    table = lake.create("t", schema, format=table_format, properties=properties)
    table.append([{"id": 1, "v": 10, "s": {"a": 1, "b": "b"}}])
    table.alter().drop_column("v").drop_column("s.b").commit()
    with lake.transaction() as tx:
        tx.restore("t", version=1)

    for has_it, has_none in (("v = 10", "v is null"), ("s.b = 'b'", "s.b is null")):
        kinds = [
            table.changes(since=1, where=where).read_all().select(["_commit_version", "v"])
            for where in (has_it, has_none)
        ]
        assert kinds[0].to_pydict() == {"_commit_version": [1, 2, 3], "v": [10, 10, 10]}
        assert kinds[1].to_pydict() == {"_commit_version": [2, 3], "v": [None, None]}
