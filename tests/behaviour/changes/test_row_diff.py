"""The rows by which two versions, two tables or two branches differ."""

from __future__ import annotations

from typing import Any

import pytest

import lakeward as lw
from lakeward.errors import InvalidInput, SchemaMismatch, VersionNotFound
from lakeward.read.row_diff import ChangedRow, RowDiff

_COLUMNS = {"id": "int64", "v": "int64", "p": "string"}


@pytest.fixture
def table(shared_lake: lw.Lake, name: str) -> lw.Table:
    table = shared_lake.create(name, _COLUMNS, partition_by=["p"])
    table.append({"id": [1, 2, 3, 4], "v": [10, 20, 30, None], "p": ["a", "a", "b", "b"]})
    table.update(set={"v": "v + 1"}, where="id = 2")
    table.merge({"id": [2, 9, 4], "v": [22, 90, 4], "p": ["a", "c", "b"]}, on="id")
    table.delete(where="id = 1")
    return table


def _counts(found: RowDiff | None) -> tuple[int, int, int]:
    assert found is not None
    return found.inserted, found.deleted, found.changed


def test_two_versions_differ_by_what_came_of_all_commits_between(table: lw.Table) -> None:
    found = table.diff(1, 4, rows=True, key="id").rows

    assert found is not None
    assert _counts(found) == (1, 1, 2)
    assert found.columns == {"v": 2}
    assert found.inserted_sample == ({"id": 9, "v": 90, "p": "c"},)
    assert found.deleted_sample == ({"id": 1, "v": 10, "p": "a"},)
    changed = sorted(found.changed_sample, key=lambda c: c.old["id"])
    assert changed == [
        ChangedRow({"id": 2, "v": 20, "p": "a"}, {"id": 2, "v": 22, "p": "a"}),
        ChangedRow({"id": 4, "v": None, "p": "b"}, {"id": 4, "v": 4, "p": "b"}),
    ]
    back = table.diff(4, 1, rows=True, key=["id"]).rows
    assert _counts(back) == (1, 1, 2)
    assert _counts(table.diff(1, 4, rows=True).rows) == (3, 3, 0)
    assert table.diff(1, 4).rows is None
    assert _counts(table.diff(4, 4, rows=True).rows) == (0, 0, 0)


def test_a_sample_is_as_large_as_asked_for(table: lw.Table) -> None:
    found = table.diff(0, 1, rows=True, sample=2).rows

    assert found is not None
    assert (found.inserted, len(found.inserted_sample)) == (4, 2)


def test_columns_that_one_version_lacks_are_named(table: lw.Table) -> None:
    table.alter().add_column("w", "int64").commit()
    table.update(set={"w": "7"}, where="id = 9")
    found = table.diff(4, table.version, rows=True, key="id").rows

    assert found is not None
    assert (found.only_left, found.only_right) == ((), ("w",))
    assert (_counts(found), found.columns) == ((0, 0, 1), {"w": 1})


def test_two_tables_are_compared_by_names(shared_lake: lw.Lake, table: lw.Table, name: str) -> None:
    other = shared_lake.create(f"{name}_copy", {"v": "int64", "id": "int32", "x": "string"})
    data = {"id": [2, 3, 5], "v": [22, 31, 50], "x": ["", "", ""]}
    other.append(data)
    found = shared_lake.diff(table.name, other, key="id")

    assert isinstance(found, RowDiff)
    assert _counts(found) == (1, 2, 2)
    assert (found.only_left, found.only_right) == (("p",), ("x",))
    older = shared_lake.diff(table.at(version=0), other.name)
    assert isinstance(older, RowDiff)
    assert _counts(older) == (3, 0, 0)


@pytest.mark.before_the_store
def test_what_cannot_be_compared_is_refused(
    shared_lake: lw.Lake, table: lw.Table, name: str
) -> None:
    words = shared_lake.create(f"{name}_words", {"id": "string", "q": "int64"})
    words.append({"id": ["one"], "q": [1]})
    cases: list[tuple[type[Exception], Any]] = [
        (VersionNotFound, lambda: table.diff(0, 99, rows=True)),
        (InvalidInput, lambda: table.diff(0, 1, key="id")),
        (InvalidInput, lambda: table.diff(0, 1, rows=True, key="nope")),
        (InvalidInput, lambda: table.diff(0, 1, rows=True, sample=-1)),
        (InvalidInput, lambda: shared_lake.diff(table, words, key="q")),
        (InvalidInput, lambda: shared_lake.diff(table.name)),
        (InvalidInput, lambda: shared_lake.diff(table, 7)),  # type: ignore[arg-type]
        (SchemaMismatch, lambda: shared_lake.diff(words, table)),
    ]
    for error, call in cases:
        with pytest.raises(error):
            call()


def test_a_branch_is_compared_with_its_base_and_with_another(
    shared_lake: lw.Lake, table: lw.Table, name: str
) -> None:
    token = name.replace(".", "-")
    one = shared_lake.branch(f"one-{token}", tables=[table.name])
    other = shared_lake.branch(f"other-{token}", tables=[table.name])
    table.append({"id": [50], "v": [50], "p": ["a"]})

    base = shared_lake.diff(one, key="id")
    assert isinstance(base, dict)
    assert _counts(base[table.name]) == (0, 0, 0)
    both = shared_lake.diff(one, other)
    assert isinstance(both, dict)
    assert _counts(both[table.name]) == (0, 0, 0)
    newest = shared_lake.diff(one.table(table.name), table, key="id")
    assert isinstance(newest, RowDiff)
    assert _counts(newest) == (1, 0, 0)


def test_a_value_that_is_not_a_number_has_not_changed(shared_lake: lw.Lake, name: str) -> None:
    columns = {"id": "int64", "v": "int64", "x": "float64", "l": "list<float64>"}
    table = shared_lake.create(name, columns)
    nan = float("nan")
    table.append({"id": [1, 2, 3], "v": [1] * 3, "x": [nan, nan, None], "l": [[nan], [nan], None]})
    table.update(set={"v": "2"})
    table.update(set={"x": "1.0"}, where="id = 2")

    for key in ("id", ["id"]):
        found = table.diff(1, 3, rows=True, key=key).rows
        assert found is not None
        assert found.columns == {"v": 3, "x": 1}
