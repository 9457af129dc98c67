"""Tables that are not what a step declares end a run before it begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lakeward as lw
from lakeward.errors import SchemaMismatch
from lakeward.pipeline import Pipeline, landing
from lakeward.pipeline.plan import Plan, plan
from tests.support.inside import context_of

ROW = "id int64 not null, amount int64, at timestamp"


def planned(lake: lw.Lake, tmp_path: Path, schema: str = ROW, **options: Any) -> Plan:
    (tmp_path / "in").mkdir(exist_ok=True)
    pipeline = Pipeline("p")

    @pipeline.step("sales", schema=schema, **options)
    def sales(batch: Any = landing("in")) -> Any:
        return batch

    return plan(pipeline, context_of(lake), str(tmp_path))


@pytest.mark.parametrize(
    ("schema", "column", "said"),
    [
        (f"{ROW}, note string", "note", "note string (the table has no such column)"),
        ("id int64 not null, at timestamp", "amount", "no amount (the table has int64)"),
        (ROW.replace("amount int64", "amount double"), "amount", "amount double"),
        (ROW.replace(" not null", ""), "id", "id int64 (the table has int64 not null)"),
    ],
)
def test_other_columns_are_named(
    lake: lw.Lake, tmp_path: Path, schema: str, column: str, said: str
) -> None:
    lake.create("sales", ROW)
    with pytest.raises(SchemaMismatch) as caught:
        planned(lake, tmp_path, schema)
    assert said in caught.value.what
    assert caught.value.facts["columns"] == [column]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"format": "iceberg"}, "format iceberg (the table is delta)"),
        ({"partition_by": ["id"]}, "partition_by id (the table has day(at))"),
        (
            {"partition_by": ["day(at)"], "constraints": {"sane": "amount > 0"}},
            "constraint sane: amount > 0 (the table has none of this name)",
        ),
    ],
)
def test_another_format_partitioning_or_constraint_is_named(
    lake: lw.Lake, tmp_path: Path, options: dict[str, Any], said: str
) -> None:
    lake.create("sales", ROW, partition_by=["day(at)"])
    with pytest.raises(SchemaMismatch) as caught:
        planned(lake, tmp_path, **options)
    assert said in caught.value.what


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_a_table_that_is_as_declared_is_taken_whatever_the_order_of_its_columns(
    lake: lw.Lake, tmp_path: Path, table_format: str
) -> None:
    options: dict[str, Any] = {
        "format": table_format,
        "partition_by": ["day(at)"],
        "constraints": {"sane": "amount > 0"},
    }
    lake.create("sales", ROW, **options)
    assert planned(lake, tmp_path, **options).steps == ()
    moved = "amount int64, at timestamp, id int64 not null"
    assert planned(lake, tmp_path, moved, **options).steps == ()
