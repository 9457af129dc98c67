"""What changed between two versions, in either direction."""

from __future__ import annotations

import pytest

import lakeward as lw
from lakeward.errors import VersionNotFound
from tests.behaviour.lakes import append, delete, overwrite


@pytest.fixture
def table(shared_lake: lw.Lake, name: str) -> lw.Table:
    table = shared_lake.create(name, {"id": "int64"})
    append(shared_lake, name, {"id": [1, 2]})
    append(shared_lake, name, {"id": [3, 4, 5]})
    delete(shared_lake, name, "id = 3")
    overwrite(shared_lake, name, {"id": [9]})
    return table


def test_a_diff_tells_files_and_rows_that_came_and_went(table: lw.Table) -> None:
    diff = table.diff(1, 3)

    assert (diff.from_version, diff.to_version, diff.table) == (1, 3, table.name)
    assert (diff.rows_added, diff.rows_removed) == (2, 0)
    assert (diff.before.rows, diff.after.rows) == (2, 4)
    removed = table.diff(2, 3)
    assert (removed.rows_added, removed.rows_removed) == (2, 3)


def test_a_diff_is_the_difference_of_the_file_lists(table: lw.Table) -> None:
    paths = [{f.path for f in table.at(version=v).files()} for v in range(5)]
    for a in range(5):
        for b in range(5):
            diff = table.diff(a, b)
            assert {f.path for f in diff.added_files} == paths[b] - paths[a]
            assert {f.path for f in diff.removed_files} == paths[a] - paths[b]
            assert diff.is_empty == (a == b)


def test_a_diff_turned_around_swaps_what_came_and_went(table: lw.Table) -> None:
    there, back = table.diff(1, 4), table.diff(4, 1)

    assert there.added_files == back.removed_files
    assert there.removed_files == back.added_files
    assert (there.before, there.after) == (back.after, back.before)


def test_a_diff_needs_versions_that_exist(table: lw.Table) -> None:
    with pytest.raises(VersionNotFound):
        table.diff(0, 99)
    with pytest.raises(VersionNotFound):
        table.diff(-1, 1)


@pytest.mark.local
def test_a_diff_of_rows_with_a_vacuumed_version_names_versions_that_can_be_read(
    table: lw.Table,
) -> None:
    table.vacuum(retention="0s", force=True)
    for a, b in ((3, 4), (4, 3), (1, 4)):
        with pytest.raises(VersionNotFound, match=r"was vacuumed.*from \d+ on were promised"):
            table.diff(a, b, rows=True)
    with pytest.raises(VersionNotFound, match=f"changes of version 4 of {table.name} were"):
        table.changes(since=4).read_all()


def test_a_diff_names_members_of_columns_by_their_paths(lake: lw.Lake, table_format: str) -> None:
    mapped = {"delta.columnMapping.mode": "name"} if table_format == "delta" else {}
    columns = "id int64, user struct<name: string>, l list<struct<a: int64>>, `x.y` int64"
    table = lake.create("t", columns, properties=mapped)
    alter = table.alter().add_column("user.age", "int64").add_column("l.element.b", "int64")
    alter.rename_column("user.name", "full").rename_column("id", "number").commit()
    table.alter().drop_column("`x.y`").rename_column("user", "person").commit()

    found = [(c.kind, c.column, c.before, c.after) for c in table.diff(0, 1).schema_changes]

    assert [c for c in found if c[0] != "type"] == [
        ("added", "user.age", None, "int64"),
        ("added", "l.element.b", None, "int64"),
        ("renamed", "number", "id", "number"),
        ("renamed", "user.full", "user.name", "user.full"),
    ]
    after = [(c.kind, c.column, c.before) for c in table.diff(1, 2).schema_changes]
    assert after == [("dropped", "`x.y`", "int64"), ("renamed", "person", "user")]
