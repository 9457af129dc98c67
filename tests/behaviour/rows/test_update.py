"""Rows given new values: those that a condition names, and never one more."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import (
    ConstraintViolation,
    InvalidExpression,
    InvalidInput,
    UnsupportedFeature,
)
from tests.behaviour.lakes import append, unchanged


def _values(lake: lw.Lake, name: str, column: str = "v") -> dict[int, Any]:
    return {r["id"]: r[column] for r in lake.table(name).to_arrow().to_pylist()}


def _update(lake: lw.Lake, name: str, set_: dict[str, str], where: str | None) -> lw.RowChanges:
    with lake.transaction() as tx:
        return tx.update(name, set=set_, where=where)


def test_rows_get_values_computed_from_what_they_were(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, {"id": "int64", "v": "int64", "w": "string"})
    append(shared_lake, name, {"id": [1, 2], "v": [10, 20], "w": ["a", None]})
    append(shared_lake, name, {"id": [3, 4], "v": [30, 40], "w": ["c", "d"]})
    (first, _) = table.files()

    done = _update(shared_lake, name, {"v": "v + id", "w": "upper(w)"}, "id >= 3")

    assert done == lw.RowChanges(updated=2, files_touched=1, files_skipped=1)
    assert _values(shared_lake, name) == {1: 10, 2: 20, 3: 33, 4: 44}
    assert _values(shared_lake, name, "w") == {1: "a", 2: None, 3: "C", 4: "D"}
    assert first.path in {f.path for f in table.files()}
    (last,) = table.history(limit=1)
    assert (last.operation, last.metrics["numUpdatedRows"]) == ("UPDATE", 2)
    assert table.at(version=2).to_arrow()["v"].to_pylist() == [10, 20, 30, 40]


def test_all_rows_are_updated_without_a_condition(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, {"id": "int64", "v": "int64"})
    append(shared_lake, name, {"id": [1, 2], "v": [1, None]})

    done = _update(shared_lake, name, {"v": "coalesce(v, 0) - 1"}, None)

    assert done.updated == 2
    assert _values(shared_lake, name) == {1: 0, 2: -1}


def test_values_may_change_places(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, {"id": "int64", "a": "int64", "b": "int64"})
    append(shared_lake, name, {"id": [1], "a": [5], "b": [7]})

    _update(shared_lake, name, {"a": "b", "b": "a"}, None)

    assert shared_lake.table(name).to_arrow().to_pylist() == [{"id": 1, "a": 7, "b": 5}]


def test_unknown_is_not_true(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, {"id": "int64", "v": "int64"})
    append(shared_lake, name, {"id": [1, 2], "v": [None, 5]})

    assert _update(shared_lake, name, {"v": "0"}, "v < 10").updated == 1

    assert _values(shared_lake, name) == {1: None, 2: 0}


def test_a_row_moves_to_the_partition_of_its_new_value(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, {"id": "int64", "p": "string"}, partition_by=["p"])
    append(shared_lake, name, {"id": [1, 2, 3], "p": ["x", "x", "y"]})

    _update(shared_lake, name, {"p": "'y'"}, "id = 1")

    assert _values(shared_lake, name, "p") == {1: "y", 2: "x", 3: "y"}
    assert len(table.files(where="p = 'x'")) == 1


def test_hidden_and_generated_partition_values_follow(shared_lake: lw.Lake, name: str) -> None:
    columns = {"id": "int64", "at": "timestamp"}
    table = shared_lake.create(name, columns, partition_by=["day(at)"])
    days = pa.array([0, 86_400_000_000], pa.timestamp("us", "UTC"))
    append(shared_lake, name, pa.table({"id": [1, 2], "at": days}))

    _update(shared_lake, name, {"at": "'2026-01-02 03:04:05'"}, "id = 1")

    assert table.to_arrow(where="at >= '2026-01-01'")["id"].to_pylist() == [1]
    assert len(table.files(where="at >= '2026-01-01'")) == 1
    assert len(table.files(where="at < '1970-01-02'")) == 0


def test_what_the_transaction_added_itself_is_updated_too(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, {"id": "int64", "v": "int64"})
    append(shared_lake, name, {"id": [1], "v": [1]})

    with shared_lake.transaction() as tx:
        tx.append(name, {"id": [2], "v": [2]})
        assert tx.update(name, set={"v": "v * 10"}, where="id <= 2").updated == 2
        assert tx.update(name, set={"v": "v + 1"}, where="v = 20").updated == 1
        assert sorted(tx.read(name)["v"].to_pylist()) == [10, 21]

    assert _values(shared_lake, name) == {1: 10, 2: 21}
    (last,) = shared_lake.table(name).history(limit=1)
    assert last.metrics["numUpdatedRows"] == 3


@pytest.mark.formats("delta")
@pytest.mark.parametrize(
    ("values", "where", "error", "match"),
    [
        ({}, None, InvalidInput, "sets nothing"),
        ({"nope": "1"}, None, InvalidInput, "no column 'nope'"),
        ({"v": "nope + 1"}, None, InvalidExpression, "no column 'nope'"),
        ({"v": "'text'"}, None, InvalidExpression, "v is int32"),
        ({"v": "f"}, None, InvalidExpression, "v is int32"),
        ({"f": "id"}, None, InvalidExpression, "f is double"),
        ({"v": "source.v"}, None, InvalidExpression, "no row of the data"),
        ({"v": "1; DROP TABLE t"}, None, InvalidExpression, "not valid SQL|Only one"),
        ({"v": "1"}, "id +", InvalidExpression, "not valid SQL"),
        ({"v": object()}, None, InvalidInput, "value of type object"),
        (["v"], None, InvalidInput, "set"),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(
    shared_lake: lw.Lake,
    name: str,
    values: Any,
    where: str | None,
    error: type[Exception],
    match: str,
) -> None:
    shared_lake.create(name, {"id": "int64", "v": "int32", "f": "double"})
    append(shared_lake, name, {"id": [1], "v": [1], "f": [0.5]})

    with unchanged(shared_lake), pytest.raises(error, match=match):
        _update(shared_lake, name, values, where)


def test_a_number_that_does_not_fit_is_an_error_and_no_other_number(
    shared_lake: lw.Lake, name: str
) -> None:
    shared_lake.create(name, {"id": "int64", "v": "int32"})
    append(shared_lake, name, {"id": [1, 2], "v": [1, 2_000_000_000]})

    assert _update(shared_lake, name, {"v": "v * 2"}, "id = 1").updated == 1
    with unchanged(shared_lake), pytest.raises(InvalidExpression, match="computed"):
        _update(shared_lake, name, {"v": "v * 2"}, None)


def test_new_values_are_checked(shared_lake: lw.Lake, name: str) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.int64())])
    shared_lake.create(name, schema, constraints={"positive": "v > 0"})
    append(shared_lake, name, pa.table({"id": [1, 2, 3], "v": [1, 2, 3]}, schema=schema))

    with unchanged(shared_lake), pytest.raises(ConstraintViolation) as caught:
        _update(shared_lake, name, {"v": "v - 2"}, None)
    assert caught.value.count == 2
    with unchanged(shared_lake), pytest.raises(ConstraintViolation, match="required"):
        _update(shared_lake, name, {"id": "null"}, "id = 1")


def test_a_table_that_only_grows_is_not_updated(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, {"id": "int64"}, policy={"append_only": True})
    append(shared_lake, name, {"id": [1]})

    with pytest.raises(UnsupportedFeature, match="append-only"):
        _update(shared_lake, name, {"id": "2"}, None)
