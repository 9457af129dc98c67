"""Sessions in zones other than UTC: derived partition values are those of UTC, and rows are found.

A generated column of a Delta table is computed by Spark in the zone of the session. The lake plans
reads in UTC, so a value of another zone would hide its file from a condition on the source column.
"""

from __future__ import annotations

from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lakeward as lw
from lakeward.errors import ConstraintViolation
from lakeward.spark import sink

ZONES = pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
BOTH = pytest.mark.parametrize("table_format", ["delta", "iceberg"])
COLUMNS = {"id": "int64", "ts": "timestamp"}
SCHEMA = "id long, ts timestamp"
TRANSFORMS = ["year(ts)", "month(ts)", "day(ts)", "hour(ts)"]
EARLY = datetime(2026, 1, 1, 2, 30, tzinfo=UTC)
"""The year before in New York."""
LATE = datetime(2026, 12, 31, 20, 0, tzinfo=UTC)
"""The year after in Kolkata."""


@pytest.fixture
def lake(tmp_path: Path) -> Generator[lw.Lake]:
    with lw.open(tmp_path / "lake") as opened:
        yield opened


def session_in(spark: SparkSession, zone: str) -> SparkSession:
    own = spark.newSession()
    own.conf.set("spark.sql.session.timeZone", zone)
    return own


def moment(spelled: datetime) -> str:
    return f"TIMESTAMP '{spelled:%Y-%m-%d %H:%M:%S}Z'"


def found(lake: lw.Lake, name: str) -> dict[str, list[int]]:
    """Ids that a condition on the source column finds, by the hour that it asks for."""
    out = {}
    for label, at in (("early", EARLY), ("late", LATE)):
        where = f"ts >= {moment(at)} AND ts <= {moment(at.replace(minute=59))}"
        out[label] = sorted(lake.table(name).to_arrow(where=where).column("id").to_pylist())
    return out


@pytest.mark.always("delta-America/New_York", "iceberg-Asia/Kolkata")
@ZONES
@BOTH
def test_rows_of_every_way_to_write_are_found_by_their_moment(
    spark: SparkSession, lake: lw.Lake, tmp_path: Path, table_format: str, zone: str
) -> None:
    terms = TRANSFORMS if table_format == "delta" else ["hour(ts)"]
    lake.create("t", COLUMNS, format=table_format, partition_by=terms)
    own = session_in(spark, zone)
    with lake.transaction(spark=own) as tx:
        tx.sql(f"INSERT INTO t (id, ts) VALUES (1, {moment(EARLY)}), (2, {moment(LATE)})")
        tx.append("t", own.createDataFrame([(3, EARLY), (4, LATE)], SCHEMA))
        tx.merge("t", own.createDataFrame([(1, LATE), (5, EARLY)], SCHEMA), on="id")
        tx.sql(
            f"MERGE INTO t USING (SELECT 6 AS id, {moment(LATE)} AS ts) AS s ON t.id = s.id"
            " WHEN NOT MATCHED THEN INSERT (id, ts) VALUES (s.id, s.ts)"
        )
    source = tmp_path / "source"
    own.createDataFrame([(7, EARLY), (8, LATE)], SCHEMA).write.parquet(str(source))
    query = (
        own.readStream.schema(SCHEMA)
        .parquet(str(source))
        .writeStream.foreachBatch(sink(lake, "t", query="moments"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert query.exception() is None

    assert found(lake, "t") == {"early": [3, 5, 7], "late": [1, 2, 4, 6, 8]}
    assert lake.doctor().healthy
    with lake.transaction(spark=own) as tx:
        assert sorted(
            r.id for r in tx.sql(f"SELECT * FROM t WHERE ts = {moment(EARLY)}").collect()
        ) == [3, 5, 7]


@pytest.mark.parametrize("partition_by", [["day(ts)"], ["bucket(4, ts)", "hour(ts)"]])
@pytest.mark.always("partition_by0")
def test_a_writer_by_name_that_files_rows_under_another_day_is_refused(
    spark: SparkSession, lake: lw.Lake, partition_by: list[str]
) -> None:
    lake.create("t", COLUMNS, partition_by=partition_by)
    own = session_in(spark, "America/New_York")
    rows = own.createDataFrame([(1, EARLY)], SCHEMA)

    with pytest.raises(ConstraintViolation) as caught, lake.transaction(spark=own) as tx:
        rows.write.format("delta").mode("append").saveAsTable(tx.name("t"))
    assert caught.value.column in ("ts_day", "ts_hour")
    assert caught.value.count == 1
    assert "timeZone" in (caught.value.hint or "")
    assert lake.table("t").version == 0

    with lake.transaction(spark=own) as tx:
        tx.append("t", rows)
    assert found(lake, "t")["early"] == [1]


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.always("False")
def test_derived_values_are_compared_with_the_rows_where_statistics_do_not_prove_them(
    spark: SparkSession, lake: lw.Lake, *, statistics: bool
) -> None:
    properties = {} if statistics else {"delta.dataSkippingNumIndexedCols": "0"}
    terms = ["day(ts)", "bucket(4, id)", "truncate(3, name)"]
    columns = {**COLUMNS, "name": "string"}
    lake.create("t", columns, partition_by=terms, properties=properties)
    own = session_in(spark, "Asia/Kolkata")
    frame = own.createDataFrame(
        [(1, EARLY, "abcd"), (2, LATE, None), (3, None, "ab"), (None, LATE, "abcx")],
        f"{SCHEMA}, name string",
    )
    with lake.transaction(spark=own) as tx:
        tx.append("t", frame)
    assert lake.table("t").to_arrow(where="name = 'abcx'").num_rows == 1
    tx = lake.transaction(spark=own)
    tx.append("t", frame)
    tx.spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    frame.write.format("delta").mode("append").saveAsTable(tx.name("t"))
    with pytest.raises(ConstraintViolation, match="ts_day"):
        tx.commit()
    assert lake.table("t").version == 1


def test_literals_of_a_transaction_are_in_utc_and_frames_keep_the_zone_they_were_made_in(
    spark: SparkSession, lake: lw.Lake
) -> None:
    lake.create("t", COLUMNS, partition_by=["day(ts)"])
    own = session_in(spark, "America/New_York")
    text = "TIMESTAMP '2026-01-01 02:30:00' AS ts"
    own.sql(f"SELECT 3L AS id, {text}").createOrReplaceTempView("of_mine")
    with lake.transaction(spark=own) as tx:
        tx.sql(f"INSERT INTO t (id, ts) SELECT 1L, {text}")
        tx.append("t", own.sql(f"SELECT 2L AS id, {text}"))
        tx.sql("INSERT INTO t (id, ts) SELECT id, ts FROM of_mine")
        tx.sql("INSERT INTO t (id, ts) SELECT 4L, CAST('2026-01-01 02:30:00' AS TIMESTAMP)")
    rows = lake.table("t").to_arrow().sort_by("id").to_pylist()
    there = datetime(2026, 1, 1, 7, 30, tzinfo=UTC)
    assert [r["ts"] for r in rows] == [EARLY, there, there, EARLY]
    assert {r["ts_day"] for r in rows} == {EARLY.date()}


def test_a_session_in_another_zone_is_told_once_that_statements_run_in_utc(
    spark: SparkSession, lake: lw.Lake, caplog: pytest.LogCaptureFixture
) -> None:
    own = session_in(spark, "Pacific/Chatham")
    for _ in range(2):
        with lake.transaction(spark=own) as tx:
            assert tx.spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert own.conf.get("spark.sql.session.timeZone") == "Pacific/Chatham"
    assert [r.getMessage() for r in caplog.records if "Pacific/Chatham" in r.getMessage()][1:] == []
    assert "Pacific/Chatham" in caplog.text


@ZONES
def test_a_plain_read_in_another_zone_finds_rows_by_their_moment(
    spark: SparkSession, lake: lw.Lake, zone: str
) -> None:
    lake.create("t", COLUMNS, partition_by=["day(ts)"])
    with lake.transaction() as tx:
        tx.append("t", [{"id": 1, "ts": EARLY}, {"id": 2, "ts": LATE}])
    own = session_in(spark, zone)
    rows = own.read.format("delta").load(lake.table("t").location)
    for number, at in ((1, EARLY), (2, LATE)):
        assert [r.id for r in rows.where(f"ts = {moment(at)}").collect()] == [number]
        assert [
            r.id for r in rows.where(f"ts >= {moment(at)} AND ts <= {moment(at)}").collect()
        ] == [number]
