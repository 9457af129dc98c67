"""The rows that versions of a table changed: ranges, columns, conditions, keys, bad input."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import (
    InvalidExpression,
    InvalidInput,
    TransactionNotFound,
    VersionNotFound,
)

Told = list[tuple[Any, ...]]
_COLUMNS = {"id": "int64", "v": "int64", "p": "string"}


@pytest.fixture
def table(shared_lake: lw.Lake, name: str) -> lw.Table:
    table = shared_lake.create(name, _COLUMNS, partition_by=["p"])
    table.append({"id": [1, 2, 3], "v": [10, 20, 30], "p": ["a", "a", "b"]})
    table.update(set={"v": "v + 1"}, where="id = 2")
    table.merge({"id": [2, 9], "v": [-2, -9], "p": ["a", "c"]}, on="id")
    table.delete(where="id = 1")
    return table


def _told(table: lw.Table, **given: Any) -> Told:
    rows = table.changes(**given).read_all().to_pylist()
    return [(r["_commit_version"], r["_change_type"], r["id"], r["v"]) for r in rows]


def test_each_version_tells_the_rows_that_differ_and_no_others(table: lw.Table) -> None:
    assert sorted(_told(table, since=1, until=1)) == [
        (1, "insert", 1, 10),
        (1, "insert", 2, 20),
        (1, "insert", 3, 30),
    ]
    assert _told(table, since=2) == [
        (2, "delete", 2, 20),
        (2, "insert", 2, 21),
        (3, "delete", 2, 21),
        (3, "insert", 2, -2),
        (3, "insert", 9, -9),
        (4, "delete", 1, 10),
    ]


def test_a_key_pairs_what_was_deleted_and_inserted(table: lw.Table) -> None:
    assert _told(table, since=2, until=3, key="id") == [
        (2, "update_preimage", 2, 20),
        (2, "update_postimage", 2, 21),
        (3, "update_preimage", 2, 21),
        (3, "update_postimage", 2, -2),
        (3, "insert", 9, -9),
    ]


def test_rows_carry_the_commit_that_changed_them(table: lw.Table) -> None:
    rows = table.changes(since=4).read_all()
    commit = table.history(limit=1)[0]

    assert rows.column_names[3:] == [
        "_change_type",
        "_commit_version",
        "_commit_timestamp",
        "_transaction_id",
    ]
    assert rows["_transaction_id"].to_pylist() == [commit.transaction_id]
    assert rows["_commit_timestamp"].to_pylist() == [commit.timestamp]
    assert rows.schema.field("_commit_timestamp").type == pa.timestamp("us", "UTC")


def test_columns_and_conditions_choose_among_changed_rows(table: lw.Table) -> None:
    only = table.changes(since=1, columns=["v"], where="id = 2").read_all()

    assert only.column_names[:1] == ["v"]
    assert only["v"].to_pylist() == [20, 20, 21, 21, -2]
    kept = table.changes(since=2, until=3, where="v > 0", key="id").read_all()
    assert kept["_change_type"].to_pylist() == [
        "update_preimage",
        "update_postimage",
        "update_preimage",
    ]


def test_times_and_transactions_name_versions(table: lw.Table) -> None:
    second, third = table.history(since=2, until=3)[::-1]

    assert _told(table, since=second.timestamp, until=third.timestamp) == _told(
        table, since=2, until=3
    )
    assert _told(table, since=second.transaction_id, until=second.transaction_id) == _told(
        table, since=2, until=2
    )
    assert _told(table, since=second.timestamp.isoformat()) == _told(table, since=2)


def test_a_tag_is_a_state_that_changes_come_after(shared_lake: lw.Lake, table: lw.Table) -> None:
    tag = f"close-of-{table.name}"
    shared_lake.tag(tag, tables=[table.name])
    with pytest.raises(VersionNotFound, match="no version after that of tag"):
        table.changes(since=tag)
    table.append({"id": [5], "v": [5], "p": ["a"]})

    assert _told(table, since=tag) == [(5, "insert", 5, 5)]
    assert _told(table, since=4, until=tag) == [(4, "delete", 1, 10)]


def test_rows_come_in_the_columns_of_the_last_version(table: lw.Table) -> None:
    table.alter().add_column("w", "int64").commit()
    table.append({"id": [5], "v": [5], "p": ["a"], "w": [50]})

    before = table.changes(since=4, until=4).read_all().to_pylist()
    after = table.changes(since=4).read_all().to_pylist()

    assert "w" not in before[0]
    assert [(r["id"], r["w"]) for r in after] == [(1, None), (5, 50)]


def test_a_column_of_the_same_name_and_another_type_is_another_column(
    shared_lake: lw.Lake, name: str
) -> None:
    table = shared_lake.create(name, {"id": "int64", "v": "int64"})
    table.append({"id": [1], "v": [10]})
    new = pa.table({"id": pa.array([1]), "v": pa.array(["ten"])})
    table.overwrite(new, schema_mode="overwrite")

    assert _told(table, since=1) == [
        (1, "insert", 1, None),
        (2, "delete", 1, None),
        (2, "insert", 1, "ten"),
    ]


def test_a_commit_that_changes_no_row_tells_nothing(table: lw.Table) -> None:
    table.alter().add_column("w", "int64").commit()
    table.update(set={"v": "v + 0"}, where="id = 3")

    assert _told(table, since=5) == []


def test_equal_rows_cancel_as_often_as_both_sides_have_them(
    shared_lake: lw.Lake, name: str
) -> None:
    table = shared_lake.create(name, {"id": "int64", "v": "int64"})
    table.append({"id": [1, 1, 1, 2], "v": [0, 0, 0, None]})
    table.overwrite({"id": [1, 2, 2], "v": [0, None, None]})

    assert _told(table, since=2) == [
        (2, "delete", 1, 0),
        (2, "delete", 1, 0),
        (2, "insert", 2, None),
    ]


@pytest.mark.before_the_store
@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"since": 3, "until": 2}, InvalidInput, "ends at version 2, before it begins at 3"),
        ({"since": 5}, VersionNotFound, "no version 5"),
        ({"since": 0, "until": 9}, VersionNotFound, "no version 9"),
        ({"since": -1}, VersionNotFound, "no version -1"),
        ({"since": "2999-01-01"}, VersionNotFound, "no version from 2999"),
        ({"since": 0, "until": "1999-01-01"}, VersionNotFound, "no version at 1999"),
        ({"since": "never"}, TransactionNotFound, "'never' is neither a tag, nor a committed"),
        ({"since": True}, InvalidInput, "True is not a version, a time, a tag or a transaction"),
        ({"since": None}, InvalidInput, "None is not a version"),
        ({"since": 0, "columns": ["nope"]}, InvalidInput, "no column 'nope'"),
        ({"since": 0, "key": "nope"}, InvalidInput, "no column 'nope'"),
        ({"since": 0, "key": []}, InvalidInput, "names no column"),
        ({"since": 0, "where": "nope = 1"}, InvalidExpression, "nope"),
    ],
)
def test_bad_ranges_and_names_are_refused(
    table: lw.Table, given: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        table.changes(**given)


def test_a_transaction_of_other_tables_is_refused(
    shared_lake: lw.Lake, table: lw.Table, name: str
) -> None:
    other = shared_lake.create(f"{name}_other", {"id": "int64"})
    done = other.append({"id": [1]})

    with pytest.raises(VersionNotFound, match=f"did not change {name}"):
        table.changes(since=done.transaction_id)
