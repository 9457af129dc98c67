"""Defaults of columns: data may lack them, other engines know them, older rows are null."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lakeward as lw
from lakeward.errors import InvalidExpression, InvalidInput, UnsupportedFeature
from tests.behaviour.lakes import unchanged
from tests.support.delta_rows import published


def _fields(table: lw.Table) -> dict[str, dict[str, Any]]:
    schema = json.loads(published(table, "metaData")[-1]["schemaString"])
    return {f["name"]: f["metadata"] for f in schema["fields"]}


@pytest.mark.formats("delta")
@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("int8", "5"),
        ("int64", "-5"),
        ("double", "1.5"),
        ("decimal(9,2)", "1.50"),
        ("string", r"'it\'s'"),
        ("boolean", "TRUE"),
        ("date", "DATE '2026-01-31'"),
        ("timestamp", "TIMESTAMP '2026-01-31 10:00:00Z'"),
        ("binary", "X'00ff'"),
    ],
)
@pytest.mark.local
def test_a_default_of_each_type_comes_back_when_the_store_is_lost(
    lake: lw.Lake, kind: str, default: str
) -> None:
    table = lake.create("t", "id int64")
    table.alter().add_column("c", kind, default=default).commit()
    table.append([{"id": 1}])
    (row,) = table.to_arrow().to_pylist()
    assert row["c"] is not None
    assert "CURRENT_DEFAULT" in _fields(table)["c"]
    assert "allowColumnDefaults" in published(table, "protocol")[-1]["writerFeatures"]
    place = table.location
    lake.drop("t")
    again = lake.adopt("again", place, take_over=True)
    again.append([{"id": 2}])
    assert [r["c"] for r in again.to_arrow().to_pylist()] == [row["c"]] * 2


@pytest.mark.formats("delta")
@pytest.mark.local
def test_other_engines_see_a_default_only_while_there_is_one(lake: lw.Lake) -> None:
    table = lake.create("t", "id int64, c string", guard=False)
    table.alter().set_default("c", "'a'").commit()
    assert published(table, "protocol")[-1]["minWriterVersion"] == 7
    table.alter().set_default("c", "'b'").commit()
    assert _fields(table)["c"]["CURRENT_DEFAULT"] == "'b'"
    table.alter().set_default("c", None).commit()
    assert "CURRENT_DEFAULT" not in _fields(table)["c"]


def test_a_backfill_gives_the_default_to_older_rows(lake: lw.Lake, table_format: str) -> None:
    table = lake.create("t", "id int64", format=table_format)
    table.append([{"id": 1}, {"id": 2}])
    with lake.transaction() as tx:
        tx.append("t", [{"id": 3}])
        tx.alter("t").add_column("c", "string", default="'x'", nullable=False, backfill=True)
        tx.append("t", [{"id": 4}, {"id": 5}])
    assert table.version == 2
    assert table.to_arrow()["c"].to_pylist() == ["x"] * 5
    assert not table.schema.field("c").nullable


def test_a_backfill_needs_a_default(lake: lw.Lake, table_format: str) -> None:
    lake.create("t", "id int64", format=table_format)
    with unchanged(lake), pytest.raises(InvalidInput, match="nothing to fill"):
        lake.table("t").alter().add_column("c", "string", backfill=True)


@pytest.mark.formats("delta")
@pytest.mark.local
def test_a_default_that_must_be_computed_is_left_to_spark(lake: lw.Lake) -> None:
    table = lake.create("t", "id int64, at timestamp", guard=False)
    table.alter().set_default("at", "TIMESTAMP '2026-01-31 10:00:00Z'").commit()
    _replace_default(table, "current_timestamp()")
    place = table.location
    lake.drop("t")
    foreign = lake.adopt("foreign", place)
    assert foreign.to_arrow().num_rows == 0
    refused = pytest.raises(UnsupportedFeature, match=r"current_timestamp\(\) of column at")
    with unchanged(lake), refused as caught:
        foreign.append([{"id": 1}])
    assert "Spark" in str(caught.value.hint)


def _replace_default(table: lw.Table, text: str) -> None:
    log = Path(table.location.removeprefix("file://")) / "_delta_log" / f"{table.version:020}.json"
    before = "TIMESTAMP '2026-01-31 10:00:00Z'"
    assert before in log.read_text()
    log.write_text(log.read_text().replace(before, text))


@pytest.mark.one_pair
@pytest.mark.parametrize("text", ["'many'", "3000000000", "1.5"])
def test_a_default_that_its_column_cannot_hold_is_refused_with_what_would_work(
    lake: lw.Lake, text: str
) -> None:
    table = lake.create("t", "id int64")
    with pytest.raises(InvalidExpression, match="Column n is int32") as refused:
        table.alter().add_column("n", "int32", default=text).commit()
    assert refused.value.hint == "Write a literal that int32 can hold."
    assert table.version == 0
