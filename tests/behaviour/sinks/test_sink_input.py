"""What a sink takes and what it refuses: before anything is buffered, and the sink goes on."""

from __future__ import annotations

from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import (
    ConstraintViolation,
    InvalidInput,
    SchemaMismatch,
    TableNotFound,
)
from tests.behaviour.lakes import ids, unchanged

SCHEMA = "id int64 not null, v double"
ROWS = {"id": [1, 2], "v": [0.5, None]}
GIVEN = {
    "rows": [{"id": 1, "v": 0.5}, {"id": 2, "v": None}],
    "columns": ROWS,
    "table": pa.table(ROWS),
    "batch": pa.record_batch(ROWS),
    "batches": [pa.record_batch({"id": [1], "v": [0.5]}), pa.record_batch({"id": [2], "v": [1.0]})],
    "reader": pa.table(ROWS).to_reader(),
    "pandas": pd.DataFrame(ROWS),
    "polars": pl.DataFrame(ROWS),
}
WRONG = {
    "column": {"id": [1], "w": [1.0]},
    "missing column": {"v": [1.0]},
    "type": {"id": ["x"], "v": [1.0]},
    "arrow type": pa.table({"id": ["x"], "v": [1.0]}),
    "null": {"id": [1, None], "v": [1.0, 1.0]},
    "no rows": 5,
    "text": "id,v",
}


@pytest.mark.parametrize("kind", GIVEN)
def test_rows_come_in_many_forms(shared_lake: lw.Lake, name: str, kind: str) -> None:
    data: Any = GIVEN[kind]
    if kind == "reader":
        data = pa.table(ROWS).to_reader()
    with shared_lake.sink(name, writer_id="w", schema={"id": "int64", "v": "double"}) as sink:
        sink.write(data)
        assert sink.commit_epoch(1).rows == 2
    assert ids(shared_lake, name) == [1, 2]


@pytest.mark.before_the_store
@pytest.mark.parametrize("kind", WRONG)
def test_rows_that_do_not_fit_are_refused_and_the_sink_goes_on(
    shared_lake: lw.Lake, name: str, kind: str
) -> None:
    with shared_lake.sink(name, writer_id="w", schema=SCHEMA) as sink:
        sink.write({"id": [1], "v": [1.0]})
        with unchanged(shared_lake), pytest.raises(InvalidInput):
            sink.write(WRONG[kind])
        sink.write({"id": [2], "v": [1.0]})
        assert sink.commit_epoch(1).rows == 2
        assert sink.metrics().refused_batches == 1
    assert ids(shared_lake, name) == [1, 2]


def test_a_call_is_taken_whole_or_not_at_all(shared_lake: lw.Lake, name: str) -> None:
    with shared_lake.sink(name, writer_id="w", schema=SCHEMA) as sink:
        good, bad = pa.table({"id": [1], "v": [1.0]}), pa.table({"id": [None], "v": [1.0]})
        with pytest.raises(InvalidInput):
            sink.write([good, bad.cast(good.schema)])
        assert sink.commit_epoch(1).rows == 0
    assert ids(shared_lake, name) == []


def test_checks_of_the_table_are_asked_before_rows_are_taken(
    shared_lake: lw.Lake, name: str
) -> None:
    shared_lake.create(name, {"id": "int64"}, constraints={"positive": "id > 0"})
    with shared_lake.sink(name, writer_id="w") as sink:
        sink.write({"id": [1]})
        with pytest.raises(ConstraintViolation) as caught:
            sink.write({"id": [2, -1]})
        assert (caught.value.constraint, caught.value.count) == ("positive", 1)
        sink.write({"id": [3]})
        sink.commit_epoch(1)
    assert ids(shared_lake, name) == [1, 3]


def test_a_frame_that_is_changed_after_it_was_written_does_not_change_the_epoch(
    shared_lake: lw.Lake, name: str
) -> None:
    with shared_lake.sink(name, writer_id="w", schema={"id": "int64"}) as sink:
        frame = pd.DataFrame({"id": [1, 2]})
        sink.write(frame)
        frame.loc[:, "id"] = 66
        sink.commit_epoch(1)
    assert ids(shared_lake, name) == [1, 2]


def test_a_table_that_is_not_there_is_made_only_by_a_schema(
    shared_lake: lw.Lake, name: str
) -> None:
    with unchanged(shared_lake), pytest.raises(TableNotFound, match="schema="):
        shared_lake.sink(name, writer_id="w")
    with shared_lake.sink(name, writer_id="w", schema={"id": "int64"}):
        assert shared_lake.table(name).version == 0


@pytest.mark.before_the_store
@pytest.mark.parametrize(
    "schema", [{"id": "string"}, {"id": "int64", "more": "int64"}, {"other": "int64"}]
)
def test_a_table_with_other_columns_is_refused(
    shared_lake: lw.Lake, name: str, schema: dict[str, str]
) -> None:
    shared_lake.create(name, {"id": "int64"})
    with unchanged(shared_lake), pytest.raises(SchemaMismatch):
        shared_lake.sink(name, writer_id="w", schema=schema)
    with shared_lake.sink(name, writer_id="w", schema={"id": "int64"}) as sink:
        assert sink.schema == shared_lake.table(name).schema


def test_a_table_of_another_format_is_refused(
    shared_lake: lw.Lake, name: str, table_format: str
) -> None:
    shared_lake.create(name, {"id": "int64"})
    other = "delta" if table_format == "iceberg" else "iceberg"
    with unchanged(shared_lake), pytest.raises(InvalidInput):
        shared_lake.sink(name, writer_id="w", format=other)
