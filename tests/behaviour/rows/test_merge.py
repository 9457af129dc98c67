"""Rows brought together by key: what each clause does, and to which rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import (
    ConstraintViolation,
    InvalidExpression,
    InvalidInput,
    SchemaMismatch,
    UnsupportedFeature,
)
from tests.behaviour.lakes import append, unchanged
from tests.support.tables import table_of

_COLUMNS = {"id": "int64", "v": "int64", "s": "string"}

_TABLE = table_of(_COLUMNS).rows(
    {"id": [1, 2], "v": [10, 20], "s": ["a", "b"]}, {"id": [3, 4], "v": [30, 40], "s": ["c", "d"]}
)


def _merge(lake: lw.Lake, name: str, data: Any, **clauses: Any) -> lw.RowChanges:
    with lake.transaction() as tx:
        return tx.merge(name, data, **clauses)


def _rows(lake: lw.Lake, name: str) -> dict[int, tuple[Any, ...]]:
    found = lake.table(name).to_arrow().to_pylist()
    return {r["id"]: (r["v"], r["s"]) for r in found}


def test_rows_of_a_key_are_updated_and_others_inserted(shared_lake: lw.Lake, name: str) -> None:
    table = _TABLE.make(shared_lake, name)
    (first, second) = table.files()

    done = _merge(shared_lake, name, {"id": [2, 9], "v": [-2, -9], "s": ["B", "N"]}, on="id")

    assert done == lw.RowChanges(inserted=1, updated=1, files_touched=1, files_skipped=1)
    assert _rows(shared_lake, name) == {
        1: (10, "a"),
        2: (-2, "B"),
        3: (30, "c"),
        4: (40, "d"),
        9: (-9, "N"),
    }
    paths = {f.path for f in table.files()}
    assert second.path in paths
    assert first.path not in paths
    (last,) = table.history(limit=1)
    assert last.operation == "MERGE"
    told = (
        "numSourceRows",
        "numTargetRowsInserted",
        "numTargetRowsUpdated",
        "numTargetRowsDeleted",
    )
    assert [last.metrics[n] for n in told] == [2, 1, 1, 0]


def test_columns_that_the_data_lacks_stay_or_are_missing(shared_lake: lw.Lake, name: str) -> None:
    _TABLE.make(shared_lake, name)

    _merge(shared_lake, name, {"id": [1, 9], "v": [-1, -9]}, on=["id"])

    assert _rows(shared_lake, name)[1] == (-1, "a")
    assert _rows(shared_lake, name)[9] == (-9, None)


def test_the_first_clause_that_holds_counts(shared_lake: lw.Lake, name: str) -> None:
    _TABLE.make(shared_lake, name)
    data = [
        {"id": 1, "op": "drop", "n": 0},
        {"id": 2, "op": "add", "n": 5},
        {"id": 3, "op": "leave", "n": 0},
        {"id": 8, "op": "add", "n": 8},
        {"id": 9, "op": "leave", "n": 9},
    ]

    done = _merge(
        shared_lake,
        name,
        data,
        on="id",
        matched=[
            lw.When("source.op = 'drop'", "delete"),
            lw.When("op <> 'leave'", {"v": "target.v + source.n", "s": "concat(s, '+')"}),
        ],
        not_matched=[lw.When("op = 'add'", {"id": "source.id", "v": "n * 100"})],
        not_matched_by_source=lw.When("v >= 40", {"s": "'alone'"}),
    )

    assert done == lw.RowChanges(1, 2, 1, files_touched=2, files_skipped=0)
    assert _rows(shared_lake, name) == {
        2: (25, "b+"),
        3: (30, "c"),
        4: (40, "alone"),
        8: (800, None),
    }


def test_rows_without_a_partner_are_deleted(shared_lake: lw.Lake, name: str) -> None:
    table = _TABLE.make(shared_lake, name)

    done = _merge(
        shared_lake,
        name,
        {"id": [2], "v": [0], "s": ["z"]},
        on="id",
        matched=None,
        not_matched_by_source="delete",
    )

    assert (done.deleted, done.updated, done.inserted) == (3, 0, 0)
    assert _rows(shared_lake, name) == {2: (20, "b")}
    assert len(table.files()) == 1


def test_partners_are_found_by_a_condition(shared_lake: lw.Lake, name: str) -> None:
    _TABLE.make(shared_lake, name)
    data = {"key": [1, 2, 3], "least": [0, 25, None], "s": ["x", "y", "z"]}

    done = _merge(
        shared_lake,
        name,
        data,
        on="source.key = target.id AND target.v >= source.least",
        not_matched={"id": "key + 100", "s": "source.s"},
    )

    assert (done.updated, done.inserted) == (1, 2)
    rows = _rows(shared_lake, name)
    assert rows[1] == (10, "x")
    assert rows[102] == (None, "y")
    assert rows[103] == (None, "z")


def test_keys_of_several_columns_and_missing_values_in_the_table(
    shared_lake: lw.Lake, name: str
) -> None:
    shared_lake.create(name, {"a": "string", "b": "date", "v": "int64"})
    days = pa.array([0, 1, 0, None], pa.date32())
    append(shared_lake, name, pa.table({"a": ["x", "x", "y", "y"], "b": days, "v": [1, 2, 3, 4]}))

    source = pa.table({"b": pa.array([1, 0], pa.date32()), "a": ["x", "z"], "v": [-2, -9]})
    done = _merge(shared_lake, name, source, on=["a", "b"])

    assert (done.updated, done.inserted) == (1, 1)
    assert sorted(shared_lake.table(name).to_arrow()["v"].to_pylist()) == [-9, -2, 1, 3, 4]


def test_a_row_that_two_rows_would_change_is_an_error(shared_lake: lw.Lake, name: str) -> None:
    _TABLE.make(shared_lake, name)
    twice = {"id": [2, 2, 9], "v": [0, 1, 2], "s": ["x", "y", "z"]}

    with unchanged(shared_lake), pytest.raises(ConstraintViolation) as caught:
        _merge(shared_lake, name, twice, on="id")
    assert "{'id': 2}" in str(caught.value)
    # Only one of them is about to do something.
    one = lw.When("source.v = 1", "update")
    done = _merge(shared_lake, name, twice, on="id", matched=one, not_matched=None)
    assert done.updated == 1
    # A row is gone once, however often that is asked for.
    done = _merge(shared_lake, name, twice, on="id", matched="delete", not_matched=None)
    assert done.deleted == 1
    assert sorted(_rows(shared_lake, name)) == [1, 3, 4]


def test_data_is_taken_in_any_form_and_width(shared_lake: lw.Lake, name: str) -> None:
    _TABLE.make(shared_lake, name)
    narrow = pa.table({"id": pa.array([1], pa.int16()), "s": pa.array(["k"]).dictionary_encode()})

    _merge(shared_lake, name, narrow.to_reader(), on="id")
    _merge(shared_lake, name, narrow.to_batches(), on="id", matched={"v": "-1"})
    _merge(shared_lake, name, [], on="id", matched="delete")

    assert _rows(shared_lake, name)[1] == (-1, "k")
    assert len(_rows(shared_lake, name)) == 4


def test_rows_of_the_transaction_itself_are_merged_too(shared_lake: lw.Lake, name: str) -> None:
    _TABLE.make(shared_lake, name)

    with shared_lake.transaction() as tx:
        tx.append(name, {"id": [7], "v": [70], "s": ["own"]})
        tx.merge(name, {"id": [4, 7], "v": [0, 0], "s": ["m", "m"]}, on="id")
        tx.merge(name, {"id": [7], "v": [1], "s": ["m2"]}, on="id")
        tx.delete(name, where="id = 1")

    assert _rows(shared_lake, name) == {
        2: (20, "b"),
        3: (30, "c"),
        4: (0, "m"),
        7: (1, "m2"),
    }


def test_several_tables_are_merged_as_one(shared_lake: lw.Lake, name: str) -> None:
    _TABLE.make(shared_lake, name)
    other = f"{name}_other"
    shared_lake.create(other, {"id": "int64"}, format="iceberg")

    with shared_lake.transaction() as tx:
        tx.merge(name, {"id": [1], "v": [0], "s": ["x"]}, on="id")
        tx.merge(other, {"id": [1]}, on="id")

    assert set(tx.commit().versions) == {name, other}


@pytest.mark.before_the_store
@pytest.mark.formats("delta")
@pytest.mark.parametrize(
    ("data", "clauses", "error", "match"),
    [
        ({"id": [1, None]}, {"on": "id"}, ConstraintViolation, "Key column id .* 1 missing"),
        ({"v": [1]}, {"on": "id"}, InvalidInput, "no column 'id' in the data"),
        ({"id": [1]}, {"on": "nope"}, InvalidInput, "no column 'nope' in table"),
        ({"id": [1]}, {"on": []}, InvalidInput, "columns that make its key"),
        ({"id": [1], "x": [1]}, {"on": "id"}, SchemaMismatch, "column 'x'"),
        ({"id": ["1"]}, {"on": "id"}, SchemaMismatch, "id"),
        (pa.table({"id": [0.5]}), {"on": "id"}, SchemaMismatch, "is int64"),
        ({"id": [1]}, {"on": "target.id > source.id"}, InvalidExpression, "equals one of"),
        ({"id": [1]}, {"on": "id = 1"}, InvalidExpression, "in the table and in the data"),
        ({"id": [1]}, {"on": "id", "matched": "insert"}, InvalidInput, "matched= has no action"),
        ({"id": [1]}, {"on": "id", "matched": {}}, InvalidInput, "matched= has no action"),
        ({"id": [1]}, {"on": "id", "not_matched": "update"}, InvalidInput, "not_matched="),
        (
            {"id": [1]},
            {"on": "id", "not_matched_by_source": "update"},
            InvalidInput,
            "not_matched_by_source=",
        ),
        (
            {"id": [1]},
            {"on": "id", "matched": None, "not_matched": None},
            InvalidInput,
            "changes nothing",
        ),
        (
            {"id": [1]},
            {"on": "id", "matched": ["delete", lw.When("true", "update")]},
            InvalidInput,
            "never reached",
        ),
        (
            {"id": [1]},
            {"on": "id", "not_matched": {"v": "target.v"}},
            InvalidExpression,
            "no row of the table",
        ),
        (
            {"id": [1]},
            {"on": "id", "not_matched_by_source": {"v": "source.id"}},
            InvalidExpression,
            "no row of the data",
        ),
        ({"id": [1]}, {"on": "id", "matched": {"w": "1"}}, InvalidInput, "no column 'w'"),
        ({"id": [1]}, {"on": "id", "matched": {"v": "'x'"}}, InvalidExpression, "v is int64"),
        ({"id": [1]}, {"on": "id", "matched": lw.When("1", "delete")}, InvalidExpression, "true"),
        ("rows", {"on": "id"}, InvalidInput, "not the name of a file"),
        (
            pa.table([[1], [2]], names=["id", "id"]),
            {"on": "id"},
            SchemaMismatch,
            "more than once",
        ),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(
    shared_lake: lw.Lake,
    name: str,
    data: Any,
    clauses: dict[str, Any],
    error: type[Exception],
    match: str,
) -> None:
    _TABLE.make(shared_lake, name)

    with unchanged(shared_lake), pytest.raises(error, match=match):
        _merge(shared_lake, name, data, **clauses)


def test_new_rows_are_checked_and_all_are_counted(shared_lake: lw.Lake, name: str) -> None:
    _TABLE.make(shared_lake, name, constraints={"small": "v < 100"})

    with unchanged(shared_lake), pytest.raises(ConstraintViolation) as caught:
        _merge(
            shared_lake,
            name,
            {"id": [1, 3, 9], "v": [200, 300, 400], "s": ["x", "y", "z"]},
            on="id",
        )
    assert caught.value.count == 3


def test_a_table_that_only_grows_takes_new_rows_alone(shared_lake: lw.Lake, name: str) -> None:
    _TABLE.make(shared_lake, name, policy={"append_only": True})
    data = {"id": [1, 9], "v": [0, 0], "s": ["x", "y"]}

    with pytest.raises(UnsupportedFeature, match="append-only"):
        _merge(shared_lake, name, data, on="id")
    assert _merge(shared_lake, name, data, on="id", matched=None).inserted == 1
