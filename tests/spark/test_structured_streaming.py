"""Structured Streaming into and out of a lake, each row once."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import lakeward as lw
from lakeward.errors import InvalidInput, TableNotFound
from lakeward.spark import read_stream, sink
from tests.support.inside import context_of

ROW = "id int64, name string"


@pytest.fixture
def lake(tmp_path: Path) -> Generator[lw.Lake]:
    with lw.open(tmp_path / "lake") as opened:
        yield opened


def land(place: Path, name: str, *ids: int) -> None:
    place.mkdir(exist_ok=True)
    rows = pa.table({"id": list(ids), "name": [f"n{i}" for i in ids]})
    pq.write_table(rows, place / f".{name}")
    (place / f".{name}").rename(place / f"{name}.parquet")


def stream(
    spark: SparkSession, tmp_path: Path, commit: Callable[[Any, int], None], name: str = "q"
) -> None:
    """Take in all that has landed, one file to a micro-batch, and stop."""
    rows = (
        spark.readStream.schema("id BIGINT, name STRING")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(tmp_path / "in"))
    )
    query = (
        rows.writeStream.foreachBatch(commit)
        .option("checkpointLocation", str(tmp_path / "checkpoints" / name))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def forget(checkpoint: Path, batch: int) -> None:
    """Let Spark not be sure whether a batch was done."""
    (checkpoint / "commits" / str(batch)).unlink()
    (checkpoint / "commits" / f".{batch}.crc").unlink(missing_ok=True)


def ids(lake: lw.Lake, name: str) -> list[int]:
    return sorted(lake.table(name).to_arrow()["id"].to_pylist())


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_each_micro_batch_is_one_commit(
    spark: SparkSession, lake: lw.Lake, tmp_path: Path, table_format: str
) -> None:
    lake.create("events", ROW, format=table_format)
    land(tmp_path / "in", "a", 1, 2)
    land(tmp_path / "in", "b", 3)
    stream(spark, tmp_path, sink(lake, "events", query="q"))
    assert ids(lake, "events") == [1, 2, 3]
    assert lake.table("events").version == 2
    land(tmp_path / "in", "c", 4)
    stream(spark, tmp_path, sink(lake, "events", query="q"))
    assert ids(lake, "events") == [1, 2, 3, 4]


def test_a_batch_that_is_given_again_changes_nothing(
    spark: SparkSession, lake: lw.Lake, tmp_path: Path
) -> None:
    lake.create("events", ROW)
    commit = sink(lake, "events", query="q")
    rows = spark.createDataFrame([(1, "a")], "id BIGINT, name STRING")
    commit(rows, 0)
    commit(rows, 0)
    sink(lake, "events", query="q")(rows, 0)
    assert ids(lake, "events") == [1]
    commit(rows, 1)
    assert ids(lake, "events") == [1, 1]
    sink(lake, "events", query="another")(rows, 0)
    assert ids(lake, "events") == [1, 1, 1]


def test_a_query_whose_checkpoint_was_lost_is_refused_until_it_has_a_new_name(
    spark: SparkSession, lake: lw.Lake, tmp_path: Path
) -> None:
    lake.create("events", ROW)
    land(tmp_path / "in", "a", 1)
    land(tmp_path / "in", "b", 2)
    stream(spark, tmp_path, sink(lake, "events", query="q"))
    shutil.rmtree(tmp_path / "checkpoints" / "q")
    shutil.rmtree(tmp_path / "in")
    for name, number in (("c", 3), ("d", 4), ("e", 5)):
        land(tmp_path / "in", name, number)
    # Without the refusal batches 0 and 1, with rows 3 and 4, would be left out.
    with pytest.raises(StreamingQueryException, match=r"belongs to the Spark query .* new name"):
        stream(spark, tmp_path, sink(lake, "events", query="q"))
    assert ids(lake, "events") == [1, 2]
    shutil.rmtree(tmp_path / "checkpoints" / "q")
    stream(spark, tmp_path, sink(lake, "events", query="q2"))
    assert ids(lake, "events") == [1, 2, 3, 4, 5]


def test_a_second_query_of_the_same_name_is_refused_and_the_first_goes_on(
    spark: SparkSession, lake: lw.Lake, tmp_path: Path
) -> None:
    lake.create("events", ROW)
    land(tmp_path / "in", "a", 1)
    stream(spark, tmp_path, sink(lake, "events", query="q"), "one")
    land(tmp_path / "in", "b", 2)
    # It would leave out its batch 0 and double the row of its batch 1.
    with pytest.raises(StreamingQueryException, match="belongs to the Spark query"):
        stream(spark, tmp_path, sink(lake, "events", query="q"), "two")
    stream(spark, tmp_path, sink(lake, "events", query="q"), "one")
    assert ids(lake, "events") == [1, 2]


def test_a_batch_that_spark_gives_again_after_a_restart_is_left_out(
    spark: SparkSession, lake: lw.Lake, tmp_path: Path
) -> None:
    lake.create("events", ROW)
    for name, number in (("a", 1), ("b", 2), ("c", 3)):
        land(tmp_path / "in", name, number)
    stream(spark, tmp_path, sink(lake, "events", query="q"))
    forget(tmp_path / "checkpoints" / "q", 2)
    land(tmp_path / "in", "d", 4)
    stream(spark, tmp_path, sink(lake, "events", query="q"))
    assert ids(lake, "events") == [1, 2, 3, 4]
    assert lake.table("events").version == 4


def test_a_checkpoint_that_is_older_than_the_lake_is_refused(
    spark: SparkSession, lake: lw.Lake, tmp_path: Path
) -> None:
    lake.create("events", ROW)
    rows = spark.createDataFrame([(1, "a")], "id BIGINT, name STRING")
    commit = sink(lake, "events", query="q")
    for batch in (0, 1, 2):
        commit(rows, batch)
    with pytest.raises(InvalidInput, match="checkpoint is older than the lake"):
        commit(rows, 1)
    assert lake.table("events").version == 3


def test_a_stream_that_an_older_lakeward_wrote_is_bound_by_its_next_batch(
    spark: SparkSession, lake: lw.Lake, tmp_path: Path
) -> None:
    lake.create("events", ROW)
    land(tmp_path / "in", "a", 1)
    stream(spark, tmp_path, sink(lake, "events", query="q"))
    with context_of(lake).database.write() as session:
        session.script("UPDATE lakeward_cursor SET reader = NULL")
    land(tmp_path / "in", "b", 2)
    stream(spark, tmp_path, sink(lake, "events", query="q"))
    with pytest.raises(StreamingQueryException, match="belongs to the Spark query"):
        stream(spark, tmp_path, sink(lake, "events", query="q"), "another")
    assert ids(lake, "events") == [1, 2]


def test_many_tables_of_both_formats_take_a_batch_together_or_not_at_all(
    spark: SparkSession, lake: lw.Lake, tmp_path: Path
) -> None:
    lake.create("events", ROW)
    lake.create("latest", ROW, format="iceberg")

    def write(tx: Any, rows: Any) -> None:
        tx.append("events", rows)
        tx.merge("latest", rows, on="id")
        if rows.filter("id < 0").count():
            what = "broken"
            raise ValueError(what)

    land(tmp_path / "in", "a", 1, 2)
    land(tmp_path / "in", "b", 2, 3)
    stream(spark, tmp_path, sink(lake, write, query="q"))
    assert ids(lake, "events") == [1, 2, 2, 3]
    assert ids(lake, "latest") == [1, 2, 3]
    with pytest.raises(ValueError, match="broken"):
        sink(lake, write, query="r")(
            spark.createDataFrame([(-1, "x")], "id BIGINT, name STRING"), 99
        )
    assert ids(lake, "events") == [1, 2, 2, 3]
    assert ids(lake, "latest") == [1, 2, 3]


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_a_table_is_the_source_of_another(
    spark: SparkSession, lake: lw.Lake, tmp_path: Path, table_format: str
) -> None:
    lake.create("events", ROW, format=table_format)
    lake.create("copy", ROW)

    def pump() -> None:
        query = (
            read_stream(lake, spark, "events")
            .writeStream.foreachBatch(sink(lake, "copy", query="copy"))
            .option("checkpointLocation", str(tmp_path / "checkpoints" / "copy"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    for number in (1, 2):
        with lake.transaction() as tx:
            tx.append("events", [{"id": number, "name": "x"}])
        pump()
        pump()
    assert ids(lake, "copy") == [1, 2]


def test_changes_of_a_table_are_a_stream(
    spark: SparkSession, lake: lw.Lake, tmp_path: Path
) -> None:
    lake.create("events", ROW, properties={"delta.enableChangeDataFeed": "true"})
    with lake.transaction() as tx:
        tx.append("events", [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
    with lake.transaction(spark=spark) as changing:
        changing.sql("UPDATE events SET name = 'c' WHERE id = 2")
    lake.create("seen", "id int64, name string, change string, version int64")

    def write(tx: Any, rows: Any) -> None:
        tx.append(
            "seen",
            rows.selectExpr("id", "name", "_change_type AS change", "_commit_version AS version"),
        )

    query = (
        read_stream(lake, spark, "events", changes=True)
        .writeStream.foreachBatch(sink(lake, write, query="feed"))
        .option("checkpointLocation", str(tmp_path / "checkpoints" / "feed"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    found = sorted(tuple(r.values()) for r in lake.table("seen").to_arrow().to_pylist())
    assert found == [
        (1, "a", "insert", 1),
        (2, "b", "insert", 1),
        (2, "b", "update_preimage", 2),
        (2, "c", "update_postimage", 2),
    ]


def test_what_cannot_be_is_told_before_anything_runs(spark: SparkSession, lake: lw.Lake) -> None:
    lake.create("events", ROW)
    with pytest.raises(TableNotFound):
        sink(lake, "nothing", query="q")
    with pytest.raises(InvalidInput):
        sink(lake, 5, query="q")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        sink(lake, "events", query="")
    for changes in (False, True):
        with pytest.raises(TableNotFound):
            read_stream(lake, spark, "nothing", changes=changes)


@pytest.mark.full
def test_lineage_names_the_files_and_tables_of_micro_batches(
    spark: SparkSession, lake: lw.Lake, tmp_path: Path
) -> None:
    lake.create("events", ROW, format="iceberg")
    lake.create("copies", ROW)
    lake.create("names", "name string, twice int64")
    lake.create("counts", "name string, n int64")
    land(tmp_path / "in", "a", 1, 2)
    land(tmp_path / "in", "b", 3)

    def doubled(tx: lw.Transaction, rows: Any) -> None:
        chosen = rows.where("id < 3").selectExpr("name", "id * 2 AS twice")
        tx.append("names", chosen)

    def follow(name: str, into: Any) -> None:
        _run(read_stream(lake, spark, name), tmp_path, sink(lake, into, query=f"of {name}"))

    stream(spark, tmp_path, sink(lake, "events", query="q"))
    follow("events", "copies")
    follow("copies", doubled)
    grouped = read_stream(lake, spark, "copies").groupBy("name").count()
    _run(grouped.toDF("name", "n"), tmp_path, sink(lake, "counts", query="grouped"), "complete")

    assert _edges(lake, "names") == {
        ("a.parquet", "value", "events"),
        ("b.parquet", "value", "events"),
        ("events", "value", "copies"),
        ("copies", "value", "names"),
    }
    assert _edges(lake, "names", "twice") == {
        ("copies.id", "rows", "names.twice"),
        ("copies.id", "value", "names.twice"),
    }
    # Rows of earlier batches are in the state of the query.
    assert _edges(lake, "counts", depth=1) == {
        ("copies", "value", "counts"),
        ("unknown", "unknown", "counts"),
    }


def _run(
    rows: Any, tmp_path: Path, commit: Callable[[Any, int], None], mode: str = "append"
) -> None:
    name = f"c{len(list((tmp_path / 'checkpoints').iterdir()))}"
    query = (
        rows.writeStream.foreachBatch(commit)
        .outputMode(mode)
        .option("checkpointLocation", str(tmp_path / "checkpoints" / name))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def _edges(
    lake: lw.Lake, name: str, column: str | None = None, depth: int | None = None
) -> set[tuple[str, str, str]]:
    found = lake.table(name).lineage(column=column, depth=1 if column else depth)
    edges = found.columns if column else found.edges
    return {(Path(str(e.source)).name, e.kind.value, str(e.target)) for e in edges}
