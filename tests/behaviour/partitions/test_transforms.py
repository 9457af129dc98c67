"""Delta tables partitioned by transforms: generated columns, computed, checked, and pruned by."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeward as lw
from lakeward.engines.arrow.expression import to_arrow
from lakeward.errors import Conflict, ConstraintViolation, InvalidInput, SchemaMismatch
from lakeward.model.expressions.where import parse
from tests.behaviour.lakes import append, delete, ids, log_files, overwrite, unchanged
from tests.support.s3 import on_disk

pytestmark = pytest.mark.formats("delta")

COLUMNS = {"id": "int64", "ts": "timestamp", "name": "string", "region": "string"}
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


def events(count: int, *, start: int = 0) -> list[dict[str, Any]]:
    """An event every six hours from New Year on."""
    return [
        {
            "id": n,
            "ts": NEW_YEAR + timedelta(hours=6 * n),
            "name": f"name {n}",
            "region": ("eu", "us")[n % 2],
        }
        for n in range(start, start + count)
    ]


def directories(table: lw.Table) -> list[str]:
    return sorted(str(Path(f.path).parent) for f in table.files())


def published_fields(lake: lw.Lake, name: str) -> dict[str, dict[str, Any]]:
    lines = [json.loads(line) for line in log_files(lake, name)[0].read_text().splitlines()]
    (metadata,) = (line["metaData"] for line in lines if "metaData" in line)
    return {f["name"]: f for f in json.loads(metadata["schemaString"])["fields"]}


@pytest.mark.parametrize(
    ("kind", "term", "column", "delta_type", "expression"),
    [
        ("timestamp", "year(x)", "x_year", "integer", "YEAR(`x`)"),
        ("timestamp", "month(x)", "x_month", "string", "DATE_FORMAT(`x`, 'yyyy-MM')"),
        ("timestamp_ntz", "day(x)", "x_day", "date", "CAST(`x` AS DATE)"),
        ("timestamp", "hour(x)", "x_hour", "string", "DATE_FORMAT(`x`, 'yyyy-MM-dd-HH')"),
        ("date", "month(x)", "x_month", "string", "DATE_FORMAT(`x`, 'yyyy-MM')"),
        ("string", "bucket(16, x)", "x_bucket", "integer", "pmod(hash(`x`), 16)"),
        ("string", "truncate(4, x)", "x_trunc", "string", "SUBSTRING(`x`, 1, 4)"),
        ("int64", "truncate(10, x)", "x_trunc", "long", "`x` - pmod(`x`, 10)"),
        ("int16", "truncate(10, x)", "x_trunc", "short", "CAST(`x` - pmod(`x`, 10) AS SMALLINT)"),
        (
            "decimal(9,2)",
            "truncate(50, x)",
            "x_trunc",
            "decimal(9,2)",
            "CAST(`x` - pmod(`x`, 0.50) AS DECIMAL(9,2))",
        ),
    ],
)
def test_a_transform_is_published_as_a_generated_column(
    shared_lake: lw.Lake,
    name: str,
    kind: str,
    term: str,
    column: str,
    delta_type: str,
    expression: str,
) -> None:
    table = shared_lake.create(name, f"id int64, x {kind}", partition_by=[term])

    assert table.partition_by == [term]
    assert table.schema.names == ["id", "x", column]
    found = published_fields(shared_lake, name)[column]
    assert found["type"] == delta_type
    assert found["metadata"]["delta.generationExpression"] == expression
    assert "generatedColumns" in table.definition.protocol["writerFeatures"]


def test_a_column_whose_name_needs_quotes_is_quoted(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(
        name, {"id": "int64", "odd `x` y": "date"}, partition_by=["day(odd `x` y)"]
    )
    append(shared_lake, name, [{"id": 1, "odd `x` y": date(2026, 1, 1)}])

    found = published_fields(shared_lake, name)["odd `x` y_day"]
    assert found["metadata"]["delta.generationExpression"] == "CAST(`odd ``x`` y` AS DATE)"
    assert table.partition_by == ["day(odd `x` y)"]
    assert len(table.files(where="`odd ``x`` y` = '2026-01-02'")) == 0


def test_rows_are_filed_under_what_follows_from_them(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(
        name, COLUMNS, partition_by=["day(ts)", "region", "truncate(6, name)"]
    )
    append(shared_lake, name, events(3))
    append(shared_lake, name, [{"id": 9, "ts": None, "name": None, "region": None}])

    null = "__HIVE_DEFAULT_PARTITION__"
    assert directories(table) == [
        "ts_day=2026-01-01/region=eu/name_trunc=name 0",
        "ts_day=2026-01-01/region=eu/name_trunc=name 2",
        "ts_day=2026-01-01/region=us/name_trunc=name 1",
        f"ts_day={null}/region={null}/name_trunc={null}",
    ]
    rows = table.to_arrow(columns=["id", "ts_day", "name_trunc"]).sort_by("id").to_pylist()
    assert rows[0] == {"id": 0, "ts_day": date(2026, 1, 1), "name_trunc": "name 0"}
    assert rows[-1] == {"id": 9, "ts_day": None, "name_trunc": None}


def test_months_and_hours_name_their_directories_as_people_would(
    shared_lake: lw.Lake, name: str
) -> None:
    table = shared_lake.create(name, COLUMNS, partition_by=["month(ts)", "hour(ts)", "year(ts)"])
    append(shared_lake, name, events(1))
    assert directories(table) == ["ts_month=2026-01/ts_hour=2026-01-01-00/ts_year=2026"]


def test_data_may_bring_the_generated_column_if_it_is_right(
    shared_lake: lw.Lake, name: str
) -> None:
    table = shared_lake.create(name, COLUMNS, partition_by=["day(ts)"])
    append(shared_lake, name, events(6))
    copy = shared_lake.create(f"{name}_copy", COLUMNS, partition_by=["day(ts)"])
    append(shared_lake, f"{name}_copy", table.to_arrow())

    assert copy.to_arrow().sort_by("id") == table.to_arrow().sort_by("id")


def test_a_wrong_generated_value_is_refused_with_samples(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, COLUMNS, partition_by=["day(ts)"])
    rows = [{**row, "ts_day": date(2026, 1, 2)} for row in events(6)]

    with unchanged(shared_lake), pytest.raises(ConstraintViolation) as caught:
        append(shared_lake, name, rows)

    error = caught.value
    assert (error.column, error.count) == ("ts_day", 4)
    assert "generated as day(ts), and 4 rows have another value" in error.what
    assert error.sample[0]["expected"] == date(2026, 1, 1)
    assert error.sample[0]["row"] == 0
    assert "Leave the column out" in str(error.hint)


def test_a_missing_generated_value_is_a_wrong_one(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, COLUMNS, partition_by=["day(ts)"])
    rows = [{**row, "ts_day": None} for row in events(1)]
    with unchanged(shared_lake), pytest.raises(ConstraintViolation, match="1 row has another"):
        append(shared_lake, name, rows)


def test_without_the_source_nothing_can_be_computed(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, {"id": "int64", "ts": "timestamp"}, partition_by=["day(ts)"])
    with unchanged(shared_lake), pytest.raises(SchemaMismatch, match="lacks column 'ts'"):
        append(shared_lake, name, [{"id": 1, "ts_day": date(2026, 1, 1)}])


@pytest.mark.before_the_store
@pytest.mark.parametrize(
    ("column", "term", "reason"),
    [
        (pa.array([-(2**31)], pa.int32()), "truncate(10, x)", "no multiple of 10 below"),
        (pa.array([Decimal(-999)], pa.decimal128(3, 0)), "truncate(10, x)", "no multiple of 10"),
        (
            pa.array([2_932_897 * 86_400_000_000]).cast(pa.timestamp("us")),
            "hour(x)",
            "outside the years 1 to 9999",
        ),
        (
            pa.array([-719_163], pa.int32()).cast(pa.date32()),
            "year(x)",
            "outside the years 1 to 9999",
        ),
    ],
)
def test_a_value_that_belongs_to_no_partition_is_refused(
    shared_lake: lw.Lake, name: str, column: pa.Array, term: str, reason: str
) -> None:
    rows = pa.table({"id": [1], "x": column})
    shared_lake.create(name, rows.schema, partition_by=[term])
    with unchanged(shared_lake), pytest.raises(SchemaMismatch, match=reason) as caught:
        append(shared_lake, name, rows)
    assert caught.value.column == "x"


@pytest.mark.before_the_store
@pytest.mark.parametrize(
    ("columns", "terms", "reason"),
    [
        (COLUMNS, ["day(when)"], "no column 'when' to partition by"),
        (COLUMNS, ["week(ts)"], "not a partition transform"),
        (COLUMNS, ["bucket(id)"], "takes a whole number and a column"),
        (COLUMNS, ["day(name)"], "column name is string"),
        (
            {**COLUMNS, "d": "date"},
            ["hour(d)"],
            r"hour\(d\) cannot partition a table: column d is date",
        ),
        ({**COLUMNS, "f": "double"}, ["bucket(4, f)"], "column f is double"),
        ({**COLUMNS, "x": "binary"}, ["truncate(4, x)"], "column x is binary"),
        ({**COLUMNS, "x": "decimal(38,2)"}, ["truncate(4, x)"], "Spark rounds"),
        (COLUMNS, ["day(ts)", "days(ts)"], "named twice"),
        (COLUMNS, ["bucket(4, id)", "bucket(8, id)"], "named twice"),
        ({**COLUMNS, "ts_day": "date"}, ["day(ts)"], "'ts_day', which column 'ts_day' has"),
        ({**COLUMNS, "TS_day": "date"}, ["day(ts)"], "which column 'TS_day' has"),
        ({"ts": "date"}, ["ts", "day(ts)"], "needs a column that it is not partitioned by"),
    ],
)
def test_partitioning_that_makes_no_sense_is_refused(
    shared_lake: lw.Lake, name: str, columns: dict[str, str], terms: list[str], reason: str
) -> None:
    with unchanged(shared_lake), pytest.raises(InvalidInput, match=reason):
        shared_lake.create(name, columns, partition_by=terms)


def test_a_column_that_is_called_like_a_transform_is_a_column(
    shared_lake: lw.Lake, name: str
) -> None:
    table = shared_lake.create(name, {"id": "int64", "day(id)": "string"}, partition_by=["day(id)"])
    assert table.schema.names == ["id", "day(id)"]
    assert table.definition.derived == {}


def test_a_table_is_copied_by_its_schema_and_partitioning(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, COLUMNS, partition_by=["day(ts)", "region"])
    again = shared_lake.create(f"{name}_2", table.schema, partition_by=table.partition_by)
    other = shared_lake.create(f"{name}_3", table.schema, partition_by=["ts_day"])

    assert again.schema == table.schema
    assert again.definition.derived == table.definition.derived
    assert other.partition_by == ["day(ts)"]
    append(shared_lake, f"{name}_3", events(2))
    assert other.to_arrow()["ts_day"].to_pylist() == [date(2026, 1, 1)] * 2


WIDE = {f"c{n}": "int8" for n in range(40)} | COLUMNS
"""So many columns that those of the events have no statistics."""


@pytest.mark.parametrize(
    ("terms", "where", "expected"),
    [
        (["day(ts)"], "ts = '2026-01-02 06:00:00'", 1),
        (["day(ts)"], "ts < '2026-01-02'", 1),
        (["day(ts)"], "ts >= '2026-01-03'", 1),
        (["day(ts)"], "ts BETWEEN '2026-01-02' AND '2026-01-02 23:00:00'", 1),
        (["day(ts)"], "ts IN ('2026-01-01', '2026-01-03')", 2),
        (["day(ts)"], "ts IS NULL", 0),
        (["day(ts)"], "ts_day = '2026-01-02'", 1),
        (["day(ts)"], "id = 3", 3),
        (["hour(ts)"], "ts > '2026-01-03 06:00:00'", 3),
        (["month(ts)"], "ts >= '2026-02-01'", 0),
        (["year(ts)"], "ts < '2026-01-01'", 0),
        (["bucket(64, id)"], "id = 3", 1),
        (["bucket(64, name)"], "name IN ('name 1', 'name 2')", 2),
        (["truncate(4, id)"], "id >= 8", 1),
        (["truncate(6, name)"], "name LIKE 'name 1%'", 1),
        (["truncate(6, name)"], "name = 'name 7 and more'", 1),
    ],
)
def test_a_condition_on_the_source_prunes_without_statistics_of_it(
    shared_lake: lw.Lake, name: str, terms: list[str], where: str, expected: int
) -> None:
    table = shared_lake.create(name, WIDE, partition_by=terms)
    append(shared_lake, name, [dict.fromkeys(WIDE) | row for row in events(12)])

    known = [f.file.stats.minimum for f in table.files() if f.file.stats]
    assert all(table.schema.by_name["ts"].id not in bounds for bounds in known)
    assert len(table.files(where=where)) == expected
    condition = to_arrow(parse(where, table.schema))
    assert table.to_arrow(where=where).num_rows == table.to_arrow().filter(condition).num_rows


def test_deletes_and_overwrites_by_the_source_keep_the_rest(
    shared_lake: lw.Lake, name: str
) -> None:
    table = shared_lake.create(name, COLUMNS, partition_by=["day(ts)"])
    append(shared_lake, name, events(12))
    untouched = table.files(where="ts >= '2026-01-03'")
    delete(shared_lake, name, "ts = '2026-01-01 06:00:00'")
    overwrite(shared_lake, name, events(1, start=5), where="ts_day = '2026-01-02'")

    assert ids(shared_lake, name) == [0, 2, 3, 5, 8, 9, 10, 11]
    assert table.files(where="ts >= '2026-01-03'") == untouched
    days = table.to_arrow(columns=["id", "ts_day"]).sort_by("id")["ts_day"].to_pylist()
    assert days == [date(2026, 1, 1)] * 3 + [date(2026, 1, 2)] + [date(2026, 1, 3)] * 4


def test_changes_to_different_days_do_not_conflict(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, WIDE, partition_by=["day(ts)"])
    append(shared_lake, name, [dict.fromkeys(WIDE) | row for row in events(12)])

    first = shared_lake.transaction()
    first.delete(name, where="ts < '2026-01-02'")
    append(shared_lake, name, [dict.fromkeys(WIDE) | row for row in events(1, start=8)])
    first.commit()

    second = shared_lake.transaction()
    second.delete(name, where="ts >= '2026-01-03'")
    append(shared_lake, name, [dict.fromkeys(WIDE) | row for row in events(1, start=9)])
    with pytest.raises(Conflict):
        second.commit()


def test_a_transaction_prunes_its_own_files_too(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, WIDE, partition_by=["day(ts)"])
    with shared_lake.transaction() as tx:
        tx.append(name, [dict.fromkeys(WIDE) | row for row in events(8)])
        assert tx.read(name, columns=["id"], where="ts >= '2026-01-02'").num_rows == 4
        tx.delete(name, where="ts >= '2026-01-02'")
    assert ids(shared_lake, name) == [0, 1, 2, 3]


def test_files_by_hand_must_lie_where_their_rows_belong(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, {"id": "int64", "ts": "timestamp"}, partition_by=["day(ts)"])
    rows = pa.table({"id": [1], "ts": pa.array([NEW_YEAR], pa.timestamp("us", "UTC"))})
    for day in ("2026-01-01", "2026-01-02"):
        place = on_disk(table.location) / f"ts_day={day}"
        place.mkdir()
        pq.write_table(rows, place / "mine.parquet")

    with shared_lake.transaction() as tx:
        tx.add_files(name, ["ts_day=2026-01-01/mine.parquet"])
    assert table.to_arrow()["ts_day"].to_pylist() == [date(2026, 1, 1)]
    tx = shared_lake.transaction()
    with pytest.raises(ConstraintViolation, match=r"ts_day .* is generated as day\(ts\)"):
        tx.add_files(name, ["ts_day=2026-01-02/mine.parquet"])


def test_a_check_may_speak_of_a_generated_column(shared_lake: lw.Lake, name: str) -> None:
    constraints = {"recent": "ts_day >= '2026-01-01'"}
    shared_lake.create(name, COLUMNS, partition_by=["day(ts)"], constraints=constraints)
    append(shared_lake, name, events(1))
    with unchanged(shared_lake), pytest.raises(ConstraintViolation, match="recent"):
        append(shared_lake, name, events(1, start=-1))


def test_entries_and_differences_tell_the_partitions(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, COLUMNS, partition_by=["month(ts)"])
    append(shared_lake, name, events(1))
    (made,) = (e for e in table.entries(version=1) if e.action == "add partition")
    assert made.path == "ts_month=2026-01"
    assert len(table.diff(0, 1).added_files) == 1
