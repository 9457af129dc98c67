"""Rows replaced: all of them, or those of a condition, and never one more."""

from __future__ import annotations

from datetime import date

import pytest

import lakeward as lw
from lakeward.errors import ConstraintViolation, UnsupportedFeature
from tests.behaviour.lakes import append, data_files, ids, overwrite, unchanged


def test_all_rows_are_replaced(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, {"id": "int64"})
    append(shared_lake, name, {"id": [1, 2]})
    append(shared_lake, name, {"id": [3]})

    assert overwrite(shared_lake, name, {"id": [4, 5]}) == 3

    assert ids(shared_lake, name) == [4, 5]
    assert shared_lake.table(name).at(version=2).to_arrow().num_rows == 3


def test_overwriting_with_nothing_empties_the_table(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, {"id": "int64"})
    append(shared_lake, name, {"id": [1, 2]})

    overwrite(shared_lake, name, [])

    assert ids(shared_lake, name) == []
    assert shared_lake.table(name).files() == []


def test_an_empty_table_can_be_overwritten(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, {"id": "int64"})

    overwrite(shared_lake, name, {"id": [1]})

    assert ids(shared_lake, name) == [1]


def test_only_rows_of_the_condition_are_replaced(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, {"id": "int64", "v": "string"})
    append(shared_lake, name, {"id": range(10), "v": ["old"] * 10})

    overwrite(shared_lake, name, {"id": [7, 100], "v": ["new"] * 2}, where="id >= 6")

    table = shared_lake.table(name)
    assert ids(shared_lake, name) == [0, 1, 2, 3, 4, 5, 7, 100]
    assert ids(shared_lake, name, where="v = 'new'") == [7, 100]
    assert table.history(limit=1)[0].parameters["predicate"] == "id >= 6"


def test_rows_for_which_the_condition_is_unknown_stay(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, {"id": "int64", "v": "int64"})
    append(shared_lake, name, {"id": [1, 2, 3], "v": [None, 5, 50]})

    overwrite(shared_lake, name, {"id": [4], "v": [60]}, where="v > 10")

    assert ids(shared_lake, name) == [1, 2, 4]


def test_a_partition_is_replaced_without_touching_files_of_others(
    shared_lake: lw.Lake, name: str
) -> None:
    table = shared_lake.create(name, {"id": "int64", "day": "date"}, partition_by=["day"])
    days = [date(2026, 1, 1), date(2026, 1, 2), None]
    append(shared_lake, name, {"id": [1, 2, 3], "day": days})
    others = {f.path for f in table.files(where="day < '2026-01-02' OR day IS NULL")}

    overwrite(shared_lake, name, {"id": [9], "day": [days[1]]}, where="day = '2026-01-02'")

    assert ids(shared_lake, name) == [1, 3, 9]
    assert others < {f.path for f in table.files()}
    assert table.diff(1, 2).rows_removed == 1


def test_new_rows_must_satisfy_the_condition(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, {"id": "int64"})
    append(shared_lake, name, {"id": [1, 2]})

    with unchanged(shared_lake), pytest.raises(ConstraintViolation) as caught:
        overwrite(shared_lake, name, {"id": [5, 1, None]}, where="id >= 2")

    assert caught.value.count == 2
    assert caught.value.table == name
    assert caught.value.expression == "id >= 2"


def test_a_check_called_where_still_holds(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, {"id": "int64"}, constraints={"where": "id > 0"})

    with pytest.raises(ConstraintViolation) as caught:
        overwrite(shared_lake, name, {"id": [-1]}, where="id < 5")

    assert caught.value.expression == "id > 0"
    assert shared_lake.table(name).version == 0


def test_overwriting_the_own_appends_of_a_transaction(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, {"id": "int64"})
    append(shared_lake, name, {"id": [1]})

    with shared_lake.transaction() as tx:
        tx.append(name, {"id": [2, 3]})
        tx.overwrite(name, {"id": [30]}, where="id >= 3")
        tx.append(name, {"id": [4]})

    assert ids(shared_lake, name) == [1, 2, 4, 30]
    assert shared_lake.table(name).version == 2


def test_the_last_of_two_overwrites_in_a_transaction_counts(
    shared_lake: lw.Lake, name: str
) -> None:
    shared_lake.create(name, {"id": "int64"})
    append(shared_lake, name, {"id": [1]})

    with shared_lake.transaction() as tx:
        tx.overwrite(name, {"id": [2]})
        tx.overwrite(name, {"id": [3]})

    assert ids(shared_lake, name) == [3]
    table = shared_lake.table(name)
    known = {f.path for v in (1, 2) for f in table.at(version=v).files()}
    assert len(known) == 2
    assert data_files(shared_lake, name) == known


def test_an_append_only_table_is_not_overwritten(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, {"id": "int64"}, policy={"append_only": True})
    append(shared_lake, name, {"id": [1]})

    with unchanged(shared_lake), pytest.raises(UnsupportedFeature, match="append-only"):
        overwrite(shared_lake, name, {"id": [2]})
    with unchanged(shared_lake), pytest.raises(UnsupportedFeature, match="append-only"):
        overwrite(shared_lake, name, {"id": [2]}, where="id = 2")
