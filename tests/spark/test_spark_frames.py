"""A frame shows the tables as they were when it was made, whatever the transaction does later."""

from __future__ import annotations

from collections.abc import Callable, Generator
from datetime import UTC, datetime
from decimal import Decimal
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


def test_spark_keeps_no_log_of_a_branch_in_memory(spark: SparkSession, lake: lw.Lake) -> None:
    delta = spark._jvm.org.apache.spark.sql.delta  # type: ignore[union-attr]
    logs = getattr(getattr(delta, "DeltaLog$"), "MODULE$")

    def change(*, commit: bool) -> None:
        tx = lake.transaction(spark=spark)
        tx.append("s.delta", [{"id": 10, "v": 1}])
        tx.append("s.vectors", [{"id": 10, "v": 1}])
        tx.sql("UPDATE s.delta SET v = 2 WHERE id = 10")
        if commit:
            tx.commit()
        else:
            tx.rollback()

    change(commit=True)
    before = logs.cacheSize()
    for commit in (True, False):
        change(commit=commit)
    assert logs.cacheSize() == before


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.always("vectors", "iceberg")
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


NESTED = "struct<a: string, b: string, in: struct<p: int64, q: int64>>"


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_members_of_structs_are_written_by_name(
    spark: SparkSession, lake: lw.Lake, table_format: str
) -> None:
    columns = f"id int64, s {NESTED}, l list<struct<x: int64, y: int64>>"
    columns += ", m map<struct<x: int64, y: int64>, struct<x: int64, y: int64>>"
    lake.create("s.t", columns, format=table_format)
    turned = "named_struct('y', 2L, 'x', 1L)"

    def rows(number: int) -> DataFrame:
        inner = "named_struct('q', 2L, 'p', 1L)"
        struct = f"named_struct('b', 'B', 'a', 'A', 'in', {inner}) s"
        return spark.sql(
            f"SELECT {number}L id, {struct}, array({turned}) l, map({turned}, {turned}) m"
        )

    with lake.transaction(spark=spark) as tx:
        tx.append("s.t", rows(1))
        tx.overwrite("s.t", rows(2), where="id = 2")
        tx.merge("s.t", rows(3), on="id")

    pair = {"x": 1, "y": 2}
    s = {"a": "A", "b": "B", "in": {"p": 1, "q": 2}}
    assert lake.table("s.t").to_arrow().sort_by("id").to_pylist() == [
        {"id": n, "s": s, "l": [pair], "m": [(pair, pair)]} for n in (1, 2, 3)
    ]
    for first in ("x", "A", "b"):
        wrong = spark.sql(f"SELECT 4L id, named_struct('{first}', 'A', 'b', 'B', 'in', null) s")
        with pytest.raises(SchemaMismatch, match=f"data for s.t has the member {first}"):
            lake.transaction(spark=spark).append("s.t", wrong)


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_values_are_not_cut(spark: SparkSession, lake: lw.Lake, table_format: str) -> None:
    columns = "id int64, i int32, d date, m decimal(10,2), f float, s struct<i: int64>"
    lake.create("s.cut", columns, format=table_format)
    fitting = "1L id, 7L i, date'2026-01-01' d, 1.2 m, 0.5f f, named_struct('i', 1) s"
    wrong = [
        "1.9d i", "timestamp'2026-01-01 23:00:00' d", "1.239 m", "1.239d m", "0.1d f",
        "named_struct('i', 1.9) s",
    ]  # fmt: skip

    writes: list[Callable[[lw.Transaction, DataFrame], object]] = [
        lambda tx, rows: tx.append("s.cut", rows),
        lambda tx, rows: tx.overwrite("s.cut", rows, where="id = 1"),
        lambda tx, rows: tx.merge("s.cut", rows, on="id"),
    ]
    for number, value in enumerate(wrong):
        rows = spark.sql(f"SELECT 1L id, {value}")
        with pytest.raises(SchemaMismatch, match="Values would lose a part"):
            writes[number % 3](lake.transaction(spark=spark), rows)
    with lake.transaction(spark=spark) as tx:
        tx.append("s.cut", spark.sql(f"SELECT {fitting}"))
        # Expressions of the user decide.
        rows = spark.sql("SELECT 1L id, 1.239 m")
        new = {"m": "round(source.m, 1)"}
        tx.merge("s.cut", rows, on="id", matched=new, not_matched=None)

    (row,) = lake.table("s.cut").to_arrow().to_pylist()
    assert (row["i"], row["m"], row["f"], row["s"]) == (7, Decimal("1.20"), 0.5, {"i": 1})


@pytest.mark.parametrize("guard", [True, False])
@pytest.mark.always("True")
def test_an_empty_text_in_a_partition_column_of_delta_is_refused(
    spark: SparkSession, lake: lw.Lake, guard: bool
) -> None:
    """Spark would write null."""
    table = lake.create("s.p", "id int64, p string", partition_by=["p"], guard=guard)
    lake.create("s.i", "id int64, p string", partition_by=["p"], format="iceberg")
    merge = "MERGE INTO s.p t USING (SELECT 1L id, '' p) s ON t.id = s.id"
    wrong: list[Callable[[lw.Transaction], object]] = [
        lambda tx: tx.append("s.p", spark.sql("SELECT 2L id, '' p")),
        lambda tx: tx.sql("INSERT INTO s.p VALUES (2, '__HIVE_DEFAULT_PARTITION__')"),
        lambda tx: tx.sql("UPDATE s.p SET p = ''"),
        lambda tx: tx.sql(f"{merge} WHEN MATCHED THEN UPDATE SET *"),
    ]

    with lake.transaction(spark=spark) as tx:
        tx.sql("INSERT INTO s.p VALUES (1, 'a'), (2, null)")
        tx.sql("UPDATE s.p SET p = 'b' WHERE id = 1")
    with lake.transaction(spark=spark) as tx:
        tx.append("s.i", spark.sql("SELECT 1L id, '' p"))
    for write in wrong:
        with pytest.raises(SchemaMismatch, match="Column p partitions"):
            write(lake.transaction(spark=spark))

    rows = [{"id": 1, "p": "b"}, {"id": 2, "p": None}]
    assert table.to_arrow().sort_by("id").to_pylist() == rows
    assert lake.table("s.i").to_arrow()["p"].to_pylist() == [""]
    assert not [f for f in lake.doctor(tables=["s.p"]).findings if f.severity == "error"]
