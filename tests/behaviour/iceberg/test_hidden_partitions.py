"""Iceberg tables partitioned by transforms: hidden values that pyiceberg finds as we do."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeward as lw
from lakeward.errors import InvalidInput, SchemaMismatch
from tests.behaviour.iceberg.strangers import Stranger, agree
from tests.behaviour.lakes import append, delete, ids, unchanged
from tests.support.s3 import on_disk

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
COLUMNS = {
    "id": "int64",
    "n": "int32",
    "ts": "timestamp",
    "tn": "timestamp_ntz",
    "d": "date",
    "s": "string",
    "x": "binary",
    "q": "decimal(9,2)",
}
TERMS = [
    *("d", "s", "identity(n)"),
    *("year(ts)", "month(ts)", "day(ts)", "hour(ts)", "year(d)", "month(d)", "day(d)"),
    *("day(tn)", "hour(tn)"),
    *(f"bucket(7, {c})" for c in ("id", "n", "ts", "tn", "d", "s", "x", "q")),
    *("truncate(3, id)", "truncate(3, n)", "truncate(2, s)", "truncate(50, q)"),
]


def rows(count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {
            "id": n,
            "n": -n,
            "ts": NEW_YEAR + timedelta(hours=5 * n),
            "tn": datetime(1969, 12, 31, 22) + timedelta(hours=n),  # noqa: DTZ001
            "d": date(2025, 12, 30) + timedelta(days=n),
            "s": f"{'é' * (n % 3)}text {n}",
            "x": bytes([n % 3, 255]),
            "q": Decimal(n) / 4 - 1,
        }
        for n in range(count)
    ]
    return [*found, dict.fromkeys(COLUMNS), {**found[0], "id": -1, "s": "", "x": b""}]


@pytest.mark.parametrize("term", TERMS)
def test_pyiceberg_files_the_rows_under_the_same_values(
    one_lake: lw.Lake, one_stranger: Stranger, name: str, term: str
) -> None:
    table = one_lake.create(name, COLUMNS, format="iceberg", partition_by=[term])
    append(one_lake, name, rows(9))
    other = f"{name}_theirs"
    one_lake.create(other, COLUMNS, format="iceberg", partition_by=[term])
    one_stranger.append(other, rows(9))

    assert agree(one_stranger, table) == 11
    assert table.schema.names == list(COLUMNS)
    theirs = one_lake.table(other)
    assert _partitions(table) == _partitions(theirs)
    assert table.partition_by == theirs.partition_by


def _partitions(table: lw.Table) -> dict[Any, int]:
    (own_id,) = table.definition.partition_by
    return {f.partition[own_id]: f.rows or 0 for f in table.files()}


def test_directories_read_as_icebergs_writers_name_them(one_lake: lw.Lake, name: str) -> None:
    terms = ["hour(ts)", "bucket(7, id)", "truncate(2, s)", "year(d)", "n"]
    table = one_lake.create(name, COLUMNS, format="iceberg", partition_by=terms)
    append(one_lake, name, [rows(1)[0], rows(1)[1], {**rows(1)[0], "s": ""}])

    found = sorted(str(Path(f.path).parent).removeprefix("data/") for f in table.files())
    bucket = 1
    assert found == [
        f"ts_hour=2026-01-01-00/id_bucket={bucket}/s_trunc=/d_year=2025/n=0",
        f"ts_hour=2026-01-01-00/id_bucket={bucket}/s_trunc=te/d_year=2025/n=0",
        "ts_hour=null/id_bucket=null/s_trunc=null/d_year=null/n=null",
    ]


@pytest.mark.parametrize(
    ("term", "where", "expected"),
    [
        ("day(ts)", "ts < '2026-01-02'", 1),
        ("day(ts)", "ts = '2026-01-02 01:00:00'", 1),
        ("bucket(64, id)", "id = 3", 1),
        ("bucket(64, id)", "id IS NULL", 1),
        ("truncate(3, id)", "id BETWEEN 3 AND 5", 1),
        ("truncate(1, x)", "x = X'00FF'", 1),
        ("s", "s LIKE 'text%'", 3),
        ("s", "s = ''", 1),
    ],
)
def test_a_condition_on_the_source_prunes_without_statistics_of_it(
    shared_lake: lw.Lake, term: str, where: str, expected: int
) -> None:
    name = f"{term}{where}".encode().hex()
    wide = {f"c{n}": "int32" for n in range(40)} | COLUMNS
    table = shared_lake.create(f"t{name}", wide, format="iceberg", partition_by=[term])
    append(shared_lake, table.name, [dict.fromkeys(wide) | row for row in rows(9)])

    known = [f.file.stats.minimum for f in table.files() if f.file.stats]
    assert all(table.schema.by_name["id"].id not in bounds for bounds in known)
    assert len(table.files(where=where)) == expected
    plain = shared_lake.create(f"p{name}", COLUMNS)
    append(shared_lake, plain.name, rows(9))
    assert ids(shared_lake, table.name, where=where) == ids(shared_lake, plain.name, where=where)


def test_deletes_by_the_source_rewrite_what_they_must(
    lake: lw.Lake, stranger: Stranger, name: str
) -> None:
    table = lake.create(name, COLUMNS, format="iceberg", partition_by=["day(ts)"])
    append(lake, name, rows(9))
    kept = table.files(where="ts >= '2026-01-02'")
    delete(lake, name, "ts = '2026-01-01 05:00:00'")

    assert agree(stranger, table) == 10
    assert [f.path for f in table.files(where="ts >= '2026-01-02'")] == [f.path for f in kept]


def test_files_by_hand_are_filed_by_their_rows(
    one_lake: lw.Lake, one_stranger: Stranger, name: str
) -> None:
    columns = {"id": "int64", "ts": "timestamp"}
    table = one_lake.create(
        name, columns, format="iceberg", partition_by=["day(ts)", "bucket(4, id)"]
    )
    place = on_disk(table.location) / "data" / "anywhere"
    place.mkdir(parents=True)
    moments = [NEW_YEAR, NEW_YEAR + timedelta(hours=1), NEW_YEAR + timedelta(days=1)]
    # With the fields' ids, by which pyiceberg knows them.
    data = pa.table({"id": [7, 7, 7], "ts": moments}, table.schema.arrow)
    pq.write_table(data.slice(0, 2), place / "one.parquet")
    pq.write_table(data, place / "two.parquet")

    with one_lake.transaction() as tx:
        tx.add_files(name, ["data/anywhere/one.parquet"])
    (only,) = table.files()
    assert only.partition == {-1000: 20454, -1001: 3}
    assert agree(one_stranger, table) == 2
    with pytest.raises(
        InvalidInput, match="rows of several partitions: ts_day is 2026-01-01, 2026"
    ):
        one_lake.transaction().add_files(name, ["data/anywhere/two.parquet"])


@pytest.mark.parametrize(
    ("terms", "reason"),
    [
        (["day(ts)", "hour(ts)"], "says again"),
        (["bucket(4, id)", "bucket(8, id)"], "named twice"),
        (["hour(d)"], "column d is date"),
        (["day(nothing)"], "no column 'nothing'"),
    ],
)
def test_partitioning_that_makes_no_sense_is_refused(
    shared_lake: lw.Lake, terms: list[str], reason: str
) -> None:
    with unchanged(shared_lake), pytest.raises(InvalidInput, match=reason):
        shared_lake.create("bad", COLUMNS, format="iceberg", partition_by=terms)


def test_a_name_that_a_column_has_is_refused(shared_lake: lw.Lake) -> None:
    columns = {**COLUMNS, "ts_day": "date"}
    with unchanged(shared_lake), pytest.raises(InvalidInput, match="which column 'ts_day' has"):
        shared_lake.create("bad", columns, format="iceberg", partition_by=["day(ts)"])


def test_a_value_that_belongs_to_no_partition_is_refused(one_lake: lw.Lake, name: str) -> None:
    one_lake.create(name, COLUMNS, format="iceberg", partition_by=["truncate(10, n)"])
    bad = {**rows(1)[0], "n": -(2**31)}
    with unchanged(one_lake), pytest.raises(SchemaMismatch, match="no multiple of 10 below it"):
        append(one_lake, name, [bad])
