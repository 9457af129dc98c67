"""Rows deleted by a condition, and never one more."""

from __future__ import annotations

import pytest

import lakeward as lw
from lakeward.errors import UnsupportedFeature
from tests.behaviour.lakes import append, data_files, delete, ids, unchanged


def test_matching_rows_go_and_others_stay(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, {"id": "int64"})
    append(shared_lake, name, {"id": range(10)})
    append(shared_lake, name, {"id": range(10, 20)})

    delete(shared_lake, name, "id % 2 = 0")

    assert ids(shared_lake, name) == list(range(1, 20, 2))
    assert shared_lake.table(name).at(version=2).to_arrow().num_rows == 20


def test_a_file_whose_rows_all_match_is_not_rewritten(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, {"id": "int64"})
    append(shared_lake, name, {"id": [1, 2]})
    append(shared_lake, name, {"id": [3, 4]})
    before = data_files(shared_lake, name)

    delete(shared_lake, name, "id > 2")

    assert data_files(shared_lake, name) == before
    assert len(table.files()) == 1
    assert ids(shared_lake, name) == [1, 2]


def test_files_without_matching_rows_stay_as_they_are(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, {"id": "int64"})
    append(shared_lake, name, {"id": [1, 2]})
    append(shared_lake, name, {"id": [3, 4]})
    (first, _) = table.files()

    delete(shared_lake, name, "id = 4")

    assert first.path in {f.path for f in table.files()}
    assert ids(shared_lake, name) == [1, 2, 3]


def test_rows_for_which_the_condition_is_unknown_stay(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, {"id": "int64", "v": "int64"})
    append(shared_lake, name, {"id": [1, 2, 3], "v": [None, 5, 50]})

    delete(shared_lake, name, "v < 10")

    assert ids(shared_lake, name) == [1, 3]


def test_nothing_matches_and_nothing_is_lost(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, {"id": "int64"})
    append(shared_lake, name, {"id": [1, 3]})

    delete(shared_lake, name, "id = 2")
    delete(shared_lake, name, "id = 99")
    delete(shared_lake, name, "false")

    assert ids(shared_lake, name) == [1, 3]


def test_everything_can_be_deleted(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, {"id": "int64"})
    append(shared_lake, name, {"id": [1, None]})

    delete(shared_lake, name, "true")

    assert ids(shared_lake, name) == []


def test_partitions_go_whole(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, {"id": "int64", "p": "string"}, partition_by=["p"])
    append(shared_lake, name, {"id": [1, 2, 3], "p": ["a", "b", None]})
    before = data_files(shared_lake, name)

    delete(shared_lake, name, "p = 'a'")
    delete(shared_lake, name, "p IS NULL")

    assert ids(shared_lake, name) == [2]
    assert data_files(shared_lake, name) == before
    assert len(table.files()) == 1


def test_rows_of_the_same_transaction_are_deleted_too(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, {"id": "int64"})
    append(shared_lake, name, {"id": [1, 2]})

    with shared_lake.transaction() as tx:
        tx.append(name, {"id": [2, 3]})
        tx.append(name, {"id": [2]})
        tx.delete(name, where="id = 2")
        assert tx.read(name)["id"].to_pylist() == [1, 3]

    assert ids(shared_lake, name) == [1, 3]


@pytest.mark.parametrize("where", ["v = v", "v <> v", "v IS NULL", "NOT (v > 0)", "v = 0"])
def test_nan_and_null_are_deleted_only_where_sql_says_so(
    shared_lake: lw.Lake, name: str, where: str
) -> None:
    nan = float("nan")
    shared_lake.create(name, {"id": "int64", "v": "double"})
    append(shared_lake, name, {"id": range(5), "v": [nan, None, -0.0, 1.0, -1.0]})
    matching = ids(shared_lake, name, where=where)

    delete(shared_lake, name, where)

    assert ids(shared_lake, name) == [n for n in range(5) if n not in matching]


def test_an_append_only_table_loses_no_rows(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, {"id": "int64"}, policy={"append_only": True})
    append(shared_lake, name, {"id": [1]})

    with unchanged(shared_lake), pytest.raises(UnsupportedFeature, match="append-only"):
        delete(shared_lake, name, "id = 1")
    with unchanged(shared_lake), pytest.raises(UnsupportedFeature, match="append-only"):  # noqa: SIM117
        with shared_lake.transaction() as tx:
            tx.remove_files(name, [f.path for f in shared_lake.table(name).files()])
