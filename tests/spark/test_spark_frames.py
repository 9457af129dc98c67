"""A frame shows the tables as they were when it was made, whatever the transaction does later."""

from __future__ import annotations

from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import DataFrame, SparkSession

import lakeward as lw
from lakeward.errors import SchemaMismatch

COLUMNS = {"id": "int64", "v": "int64"}
TABLES = {
    "delta": {},
    "vectors": {"properties": {"delta.enableDeletionVectors": "true"}},
    "iceberg": {"format": "iceberg"},
}


@pytest.fixture
def lake(tmp_path: Path) -> Generator[lw.Lake]:
    with lw.open(tmp_path / "lake") as opened:
        for name, options in TABLES.items():
            opened.create(f"s.{name}", COLUMNS, **options)  # type: ignore[arg-type]
            with opened.transaction() as tx:
                tx.append(f"s.{name}", [{"id": n, "v": n} for n in range(4)])
        yield opened


def ids(frame: DataFrame) -> list[int]:
    return sorted(r.id for r in frame.collect())


@pytest.mark.parametrize("kind", TABLES)
def test_a_frame_shows_the_table_as_it_was_when_the_frame_was_made(
    spark: SparkSession, lake: lw.Lake, kind: str
) -> None:
    table = f"s.{kind}"

    with lake.transaction(spark=spark) as tx:
        tx.sql(f"CREATE TEMPORARY VIEW seen AS SELECT * FROM {table}")
        first = [
            tx.read(table),
            tx.sql(f"SELECT {table}.id FROM {table}"),
            tx.sql("SELECT seen.id FROM seen"),
        ]
        tx.sql(f"DELETE FROM {table} WHERE id = 1")
        second = [
            tx.read(table, where="id >= 0"),
            tx.sql(f"WITH x AS (SELECT * FROM {table}) SELECT {table}.id FROM {table}"),
            tx.sql("SELECT * FROM seen"),
        ]
        tx.append(table, [{"id": 9, "v": 9}])

        assert [ids(f) for f in first] == [[0, 1, 2, 3]] * 3
        assert [ids(f) for f in second] == [[0, 2, 3]] * 3
        assert ids(second[0].join(first[0], "id")) == [0, 2, 3]
        assert ids(first[0].where("v > 1")) == [2, 3]
        assert ids(tx.sql("SELECT * FROM seen")) == ids(tx.read(table)) == [0, 2, 3, 9]
        # The frame keeps the rows, so a table can be written from an older state of itself.
        tx.overwrite(table, first[0])

    assert sorted(lake.table(table).to_arrow()["id"].to_pylist()) == [0, 1, 2, 3]


def test_a_frame_of_an_empty_table_stays_empty(spark: SparkSession, lake: lw.Lake) -> None:
    for table_format in ("delta", "iceberg"):
        lake.create(f"empty_{table_format}", COLUMNS, format=table_format)

    with lake.transaction(spark=spark) as tx:
        frames = [tx.read("empty_delta"), tx.sql("SELECT id FROM empty_iceberg")]
        for table_format in ("delta", "iceberg"):
            tx.sql(f"INSERT INTO empty_{table_format} VALUES (1, 1)")
        assert [ids(f) for f in frames] == [[], []]


def test_data_of_every_form_fits_as_it_does_without_spark(
    spark: SparkSession, lake: lw.Lake, tmp_path: Path
) -> None:
    lake.create("s.mixed", "id int32, name string, at timestamp")
    noon = datetime(2026, 1, 2, 12)  # noqa: DTZ001  without a zone it is UTC
    names = pl.Series(["a"], dtype=pl.Categorical)
    (tmp_path / "x.csv").write_text("id,name,at\n2,b,2026-01-02 12:00:00\n")

    with lake.transaction(spark=spark) as tx:
        tx.append("s.mixed", pl.DataFrame({"id": [1], "name": names, "at": [noon]}))
        tx.append("s.mixed", tmp_path / "x.csv")

    moment = noon.replace(tzinfo=UTC)
    assert lake.table("s.mixed").to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "name": "a", "at": moment},
        {"id": 2, "name": "b", "at": moment},
    ]
    with pytest.raises(SchemaMismatch, match="2147483648 in row 0"):
        lake.transaction(spark=spark).append("s.mixed", [{"id": 2**31}])
