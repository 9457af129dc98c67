"""The rows that versions of a table changed: ranges, columns, conditions, keys, bad input."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.engines.arrow import net_rows
from lakeward.errors import (
    InvalidExpression,
    InvalidInput,
    TransactionNotFound,
    VersionNotFound,
)
from lakeward.read import change_rows
from lakeward.read.change_rows import ChangeReader
from lakeward.read.changes import CHANGE_COLUMNS

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


@pytest.mark.parametrize("given", [{}, {"key": "id"}, {"where": "v > 0"}])
def test_without_columns_each_change_is_still_one_row(
    table: lw.Table, given: dict[str, Any]
) -> None:
    found = table.changes(since=1, columns=[], **given).read_all()
    whole = table.changes(since=1, **given).read_all()
    assert found.column_names == list(CHANGE_COLUMNS)
    assert found.to_pylist() == whole.select(list(CHANGE_COLUMNS)).to_pylist()


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


def test_a_tag_of_other_tables_is_named_as_such(shared_lake: lw.Lake, table: lw.Table) -> None:
    other = shared_lake.create(f"{table.name}_other", {"id": "int64"})
    shared_lake.tag(f"{table.name}-tag", tables=[other.name])

    for given in ({"since": f"{table.name}-tag"}, {"since": 1, "until": f"{table.name}-tag"}):
        with pytest.raises(VersionNotFound, match=f"names no version of table {table.name}"):
            table.changes(**given)


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


@pytest.fixture
def fed(shared_lake: lw.Lake, name: str) -> lw.Table:
    """A table with a change feed and two files."""
    columns = {"id": "int64", "v": "int64"}
    policy = {"change_data_feed": True}
    table = shared_lake.create(name, columns, format="delta", policy=policy)
    for one in (1, 2):
        table.append({"id": [one], "v": [10 * one]})
    return table


def test_with_a_feed_and_a_key_old_values_come_first(fed: lw.Table) -> None:
    fed.update(set={"id": "id + 1"})
    fed.merge({"id": [2], "v": [11]}, on="id", not_matched_by_source="delete")

    told = _told(fed, since=3, key="id")

    assert [row[:2] for row in told[:4]] == [(3, "update_preimage")] * 2 + [
        (3, "update_postimage")
    ] * 2
    assert sorted(row[2:] for row in told[:2]) == [(1, 10), (2, 20)]
    assert sorted(row[2:] for row in told[2:4]) == [(2, 10), (3, 20)]
    assert sorted(told[4:6]) == [(4, "delete", 3, 20), (4, "update_preimage", 2, 10)]
    assert told[6:] == [(4, "update_postimage", 2, 11)]


@pytest.mark.parametrize("key", [None, "id"])
def test_old_values_come_first_if_rows_do_not_fit_into_memory(
    shared_lake: lw.Lake, name: str, key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_rows, "_MEMORY", 1)
    table = shared_lake.create(name, {"id": "int64", "v": "int64"})
    table.append({"id": list(range(50)), "v": [0] * 50})
    table.overwrite(pa.table({"id": list(range(1, 51)), "v": [1] * 50}))

    kinds = [row[1] for row in _told(table, since=2, key=key)]

    old = {"delete", "update_preimage"}
    assert len(kinds) == 100
    assert all(kind in old for kind in kinds[:50])
    assert not any(kind in old for kind in kinds[50:])


def test_a_feed_is_paired_by_key_in_bounded_memory(
    fed: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed.merge({"id": [1], "v": [11]}, on="id")
    monkeypatch.setattr(change_rows, "_MEMORY", 2**20)
    monkeypatch.setattr(net_rows, "_WRITTEN_AT_ONCE", 2**10)
    rows, held = 2**16, []

    def large(*_: object, told: bool = False, **__: object) -> Iterator[pa.RecordBatch]:
        for number in range(40 if told else 0):
            ids = pa.array(range(number * rows, (number + 1) * rows), pa.int64())
            kinds = pa.array(["insert" if number % 2 else "delete"] * rows)
            held.append(pa.total_allocated_bytes())
            yield pa.record_batch({"id": ids, "v": ids, "_change_type": kinds})

    monkeypatch.setattr(ChangeReader, "_read", large)
    found = sum(batch.num_rows for batch in fed.changes(since=3, key="id"))

    assert found == 40 * rows
    assert max(held) - held[0] < 20 * 2**20
