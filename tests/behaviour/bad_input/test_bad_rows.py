"""Rows that do not fit: the error names the table and the column, and nothing is changed."""

from __future__ import annotations

from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import InvalidInput, SchemaMismatch, TableNotFound
from tests.behaviour.lakes import append, unchanged

pytestmark = pytest.mark.before_the_store

_NAME = "space.bad_rows"


@pytest.fixture(scope="module")
def lake(shared_lake: lw.Lake) -> lw.Lake:
    shared_lake.create(_NAME, {"id": "int64", "note": "string"})
    append(shared_lake, _NAME, [{"id": 1, "note": "x"}])
    return shared_lake


_WRONG_TYPE: dict[str, Any] = {
    "table": pa.table({"id": ["x"], "note": ["x"]}),
    "batch": pa.record_batch({"id": [1.5], "note": ["x"]}),
    "pandas": pd.DataFrame({"id": ["x"], "note": ["x"]}),
    "polars": pl.DataFrame({"id": ["x"], "note": ["x"]}),
    "dicts": [{"id": "x", "note": "x"}],
    "columns": {"id": ["x"], "note": ["x"]},
    "later dict": [{"id": 1, "note": "x"}, {"id": "x", "note": "x"}],
}


@pytest.mark.parametrize("form", _WRONG_TYPE)
def test_a_wrong_type_names_table_and_column(lake: lw.Lake, form: str) -> None:
    with unchanged(lake), pytest.raises(SchemaMismatch) as caught:
        append(lake, _NAME, _WRONG_TYPE[form])

    assert (caught.value.table, caught.value.column) == (_NAME, "id")
    assert _NAME in str(caught.value)
    assert caught.value.hint


_MISSING: dict[str, Any] = {
    "table": pa.table({"id": [2]}),
    "reader": pa.table({"id": [2]}).to_reader(),
    "pandas": pd.DataFrame({"id": [2]}),
    "polars": pl.DataFrame({"id": [2]}),
    "dicts": [{"id": 2}],
    "columns": {"id": [2]},
    "nothing": {},
}


@pytest.mark.parametrize("form", ["table", "pandas", "polars", "dicts", "columns", "nothing"])
def test_a_missing_column_is_named(lake: lw.Lake, form: str) -> None:
    with unchanged(lake), pytest.raises(SchemaMismatch) as caught:
        append(lake, _NAME, _MISSING[form])

    assert "note" in caught.value.missing
    assert _NAME in str(caught.value)
    assert "'note'" in str(caught.value)
    assert "id, note" in str(caught.value.hint)


_EXTRA: dict[str, Any] = {
    "table": pa.table({"id": [2], "note": ["x"], "more": [1]}),
    "pandas": pd.DataFrame({"id": [2], "note": ["x"], "more": [1]}),
    "polars": pl.DataFrame({"id": [2], "note": ["x"], "more": [1]}),
    "dicts": [{"id": 2, "note": "x"}, {"id": 3, "note": "x", "more": None}],
    "columns": {"id": [2], "note": ["x"], "more": [1]},
}


@pytest.mark.parametrize("form", _EXTRA)
def test_an_extra_column_is_named(lake: lw.Lake, form: str) -> None:
    with unchanged(lake), pytest.raises(SchemaMismatch) as caught:
        append(lake, _NAME, _EXTRA[form])

    assert caught.value.extra == ["more"]
    assert _NAME in str(caught.value)
    assert "'more'" in str(caught.value)


def test_a_name_nearly_right_gets_a_suggestion(lake: lw.Lake) -> None:
    with unchanged(lake), pytest.raises(SchemaMismatch, match="Did you mean 'note' by 'notes'"):
        append(lake, _NAME, pa.table({"id": [1], "notes": ["x"]}))


def test_names_in_other_case_are_other_names(lake: lw.Lake) -> None:
    with unchanged(lake), pytest.raises(SchemaMismatch):
        append(lake, _NAME, pa.table({"ID": [1], "note": ["x"]}))


def test_a_column_given_twice_is_refused(lake: lw.Lake) -> None:
    twice = pa.table([pa.array([1]), pa.array([2]), pa.array(["x"])], ["id", "id", "note"])

    with unchanged(lake), pytest.raises(SchemaMismatch, match="more than once"):
        append(lake, _NAME, twice)


def test_columns_of_different_lengths_are_refused(lake: lw.Lake) -> None:
    with unchanged(lake), pytest.raises(InvalidInput, match="same length"):
        append(lake, _NAME, {"id": [1, 2], "note": ["x"]})


def test_batches_of_different_schemas_are_refused(lake: lw.Lake) -> None:
    good = pa.record_batch({"id": [1], "note": ["x"]})
    bad = pa.record_batch({"id": [1], "other": ["x"]})

    with unchanged(lake), pytest.raises(SchemaMismatch):
        append(lake, _NAME, [good, bad])
    with unchanged(lake), pytest.raises(SchemaMismatch):
        append(lake, _NAME, iter([good, good, bad]))


@pytest.mark.parametrize(
    "use",
    [
        lambda lake: lake.table("space.nowhere"),
        lambda lake: lake.drop("space.nowhere"),
        lambda lake: append(lake, "space.nowhere", [{"id": 1}]),
        lambda lake: append(lake, "nowhere", [{"id": 1}]),
        lambda lake: lake.transaction().overwrite("space.nowhere", []),
        lambda lake: lake.transaction().delete("space.nowhere", where="true"),
        lambda lake: lake.transaction().read("space.nowhere"),
        lambda lake: lake.transaction().record("space.nowhere", "app", 1),
        lambda lake: lake.transaction().add_files("space.nowhere", []),
        lambda lake: lake.transaction().remove_files("space.nowhere", []),
        lambda lake: lake.snapshot().table("space.nowhere"),
    ],
    ids=range(11),
)
def test_an_unknown_table_is_named(lake: lw.Lake, use: Any) -> None:
    with unchanged(lake), pytest.raises(TableNotFound) as caught:
        use(lake)

    assert caught.value.table.endswith("nowhere")
    assert caught.value.hint


def test_an_unknown_table_ends_a_transaction_with_its_other_changes(lake: lw.Lake) -> None:
    with unchanged(lake), pytest.raises(TableNotFound):
        _two_tables(lake)


def _two_tables(lake: lw.Lake) -> None:
    with lake.transaction() as tx:
        tx.append(_NAME, [{"id": 2, "note": "x"}])
        tx.append("space.nowhere", [{"id": 2}])


def test_a_moment_beyond_pythons_calendar_is_named(lake: lw.Lake) -> None:
    lake.create("space.moments", {"at": "timestamp_ntz"})
    rows = pa.table({"at": pa.array([0, 2**62], pa.timestamp("s"))})
    with unchanged(lake), pytest.raises(SchemaMismatch, match=rf"{2**62} in row 1 does not fit"):
        append(lake, "space.moments", rows)
