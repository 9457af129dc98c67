"""Tables partitioned by generated columns: strangers read them row for row, and prune as they like.

Generated columns ask something of writers only, so every reader reads them.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import lakeward as lw
from tests.behaviour.lakes import append, delete
from tests.behaviour.samples import exact_rows
from tests.interop.readers import Comparison, Reader, as_ours

_MOMENTS = [datetime(2025, 12, 31, 21, tzinfo=UTC) + timedelta(hours=5 * n) for n in range(9)]
_OLD = datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
_TEXTS = ["a", "ab", "abc", "Zürich", "😀ü and more", "a/b=c %", "'quoted'"]
TABLES: dict[str, tuple[pa.DataType, str, list[Any]]] = {
    "year": (pa.timestamp("us", "UTC"), "year(x)", [*_MOMENTS, _OLD]),
    "month": (pa.timestamp("us", "UTC"), "month(x)", [*_MOMENTS, _OLD]),
    "day": (pa.timestamp("us", "UTC"), "day(x)", [*_MOMENTS, _OLD]),
    "hour": (pa.timestamp("us", "UTC"), "hour(x)", [*_MOMENTS, _OLD]),
    "local_hour": (pa.timestamp("us"), "hour(x)", [m.replace(tzinfo=None) for m in _MOMENTS]),
    "month_of_date": (pa.date32(), "month(x)", [m.date() for m in _MOMENTS]),
    "bucket": (pa.int64(), "bucket(8, x)", [0, 34, -1, 2**63 - 1]),
    "bucket_of_text": (pa.string(), "bucket(8, x)", _TEXTS),
    "prefix": (pa.string(), "truncate(2, x)", _TEXTS),
    "tens": (pa.int32(), "truncate(10, x)", [-11, -10, -1, 0, 9, 10]),
    "halves": (pa.decimal128(9, 2), "truncate(50, x)", [Decimal("-10.65"), Decimal("0.49")]),
}


@pytest.fixture(scope="module")
def transformed(own_lake: lw.Lake) -> dict[str, lw.Table]:
    """A table for each transform, with a missing value, a second file and a delete."""
    made = {}
    for kind, (column, term, values) in TABLES.items():
        name = f"transformed.{kind}"
        schema = pa.schema([("id", pa.int64()), ("x", column)])
        made[kind] = own_lake.create(name, schema, partition_by=[term])
        rows = [{"id": n, "x": v} for n, v in enumerate([*values, None])]
        append(own_lake, name, rows)
        append(own_lake, name, rows[:3])
        delete(own_lake, name, "id = 1")
    return made


@pytest.mark.parametrize("kind", TABLES)
def test_every_transform_reads_the_same(
    stranger: Reader, transformed: dict[str, lw.Table], kind: str
) -> None:
    table = transformed[kind]
    ours = table.to_arrow()
    theirs = stranger.rows(table.location)
    assert exact_rows(as_ours(theirs, ours.schema)) == exact_rows(ours)
    assert ours.num_rows == len(TABLES[kind][2]) + 2


@pytest.mark.parametrize("kind", TABLES)
def test_conditions_on_the_source_find_the_same_rows(
    stranger: Reader, transformed: dict[str, lw.Table], kind: str
) -> None:
    table = transformed[kind]
    column, _, values = TABLES[kind]
    rows = table.to_arrow(columns=["id", "x"])
    for value in values:
        for sign in ("=", "<", "<=", ">", ">="):
            comparison = Comparison(sign, value, column)
            expected = stranger.ids_of(rows, comparison)
            assert stranger.ids(table.location, comparison) == expected
            ours = table.to_arrow(columns=["id"], where=f"x {sign} {_literal(value)}")
            assert sorted(ours["id"].to_pylist()) == expected


def test_delta_rs_knows_which_columns_are_generated(transformed: dict[str, lw.Table]) -> None:
    found = DeltaTable(transformed["day"].location)
    (column,) = (f for f in found.schema().fields if f.name == "x_day")
    assert column.metadata["delta.generationExpression"] == "CAST(`x` AS DATE)"
    assert found.metadata().partition_columns == ["x_day"]


def _literal(value: Any) -> str:
    if isinstance(value, datetime):
        kind = "TIMESTAMP" if value.tzinfo else "TIMESTAMP_NTZ"
        return f"{kind} '{value.replace(tzinfo=None)}'"
    if isinstance(value, date):
        return f"DATE '{value}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value)
