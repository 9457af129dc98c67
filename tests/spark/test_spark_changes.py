"""Changes of tables of both formats in Spark: as a frame, in SQL, and as a stream, each once.

`tests/behaviour/changes/test_changes_source.py` uses the source of the streams without Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import lakeward as lw
from lakeward.errors import InvalidInput, TableNotFound, UnsupportedFeature, VersionNotFound
from lakeward.spark import read_changes, read_stream, sink

COLUMNS = "id int64, name string, at timestamp, tags list<string>"


@pytest.fixture
def lake(tmp_path: Path) -> Generator[lw.Lake]:
    with lw.open(tmp_path / "lake") as opened:
        yield opened


@pytest.fixture
def table(lake: lw.Lake, request: pytest.FixtureRequest) -> lw.Table:
    """Five versions; the format is the test's parameter, Delta by default."""
    made = lake.create("s.events", COLUMNS, format=getattr(request, "param", "delta"))
    made.append(
        [
            {"id": n, "name": "a", "at": datetime(2026, 1, 31, 9, tzinfo=UTC), "tags": ["x"]}
            for n in (1, 2, 3)
        ]
    )
    made.update(set={"name": "'b'"}, where="id = 2")
    made.delete(where="id = 1")
    made.optimize()
    made.append([{"id": 4, "name": None, "at": None, "tags": None}])
    return made


def expected(table: lw.Table, **options: Any) -> list[str]:
    return sorted(map(str, table.changes(**options).read_all().to_pylist()))


def found(frame: Any) -> list[str]:
    return sorted(map(str, frame.toArrow().to_pylist()))


@pytest.mark.always("iceberg")
@pytest.mark.parametrize("table", ["delta", "iceberg"], indirect=True)
def test_a_frame_and_sql_have_the_rows_of_changes(
    spark: SparkSession, lake: lw.Lake, table: lw.Table
) -> None:
    asked: list[dict[str, Any]] = [
        {"since": 1},
        {"since": 2, "until": 3, "key": "id"},
        {"since": 1, "columns": ["name", "id"], "where": "id < 3"},
    ]
    for options in asked:
        frame = read_changes(lake, spark, "s.events", **options)
        assert found(frame) == expected(table, **options), options
    frame = read_changes(lake, spark, "s.events", since=1, until=2)
    table.delete(where="id = 4")
    assert found(frame) == expected(table, since=1, until=2), "a frame has a fixed range"

    lake.tag("then")
    with lake.transaction(spark=spark) as tx:
        table.append([{"id": 5, "name": "later", "at": None, "tags": None}])
        frame = tx.sql("SELECT * FROM table_changes('s.events', 2, 3)")
        assert found(frame) == expected(table, since=2, until=3)
        frame = tx.sql("SELECT c.id FROM Table_Changes ( 's.events' , 1 ) AS c WHERE c.id > 2")
        # The transaction sees the version that was the newest when it took its cut.
        assert sorted(r.id for r in frame.collect()) in ([3, 4, 4], [3, 4, 4, 5])
        kinds = "SELECT e.id, c._change_type FROM table_changes('s.events', 2, 'then') c"
        joined = tx.sql(f"{kinds} JOIN s.events e USING (id) WHERE c._change_type = 'insert'")
        assert [tuple(r) for r in joined.collect()] == [(2, "insert")]
        tx.sql("CREATE TABLE s.kinds AS SELECT id, _change_type AS kind FROM"
               " table_changes('s.events', 2, 3)")  # fmt: skip
        tx.sql("INSERT INTO s.kinds SELECT id, 'again' FROM table_changes('s.events', 3, 3)")
    rows = lake.table("s.kinds").to_arrow().to_pylist()
    told = sorted((r["id"], r["kind"]) for r in rows)
    assert told == [(1, "again"), (1, "delete"), (2, "delete"), (2, "insert")]
    assert not list(Path(lake.warehouse).rglob("scratch/*/*")), "staged changes are left"


def test_what_cannot_be_asked_for_is_refused_and_the_transaction_goes_on(
    spark: SparkSession, lake: lw.Lake, table: lw.Table
) -> None:
    with lake.transaction(spark=spark) as tx:
        before = tx.sql("SELECT * FROM s.events").count()
        table.append([{"id": 9, "name": "unseen", "at": None, "tags": None}])
        for call, error in (
            ("table_changes('s.events', 99)", VersionNotFound),
            (f"table_changes('s.events', 1, {table.version})", VersionNotFound),
            (f"table_changes('s.events', {table.version})", VersionNotFound),
            ("table_changes('s.events', 3, 2)", InvalidInput),
            ("table_changes('s.nothing', 1)", TableNotFound),
            ("table_changes(s.events, 1)", InvalidInput),
            ("table_changes('s.events')", InvalidInput),
            ("table_changes('s.events', 1 + 1)", InvalidInput),
            ("table_changes('s.events', 1", InvalidInput),
            ("table_changes_by_path('/x', 1)", UnsupportedFeature),
        ):
            with pytest.raises(error):
                tx.sql(f"SELECT * FROM {call}")
        assert tx.sql("SELECT * FROM s.events").count() == before
        text = "SELECT 'table_changes(1)' AS t FROM s.events LIMIT 1"
        assert tx.sql(text).first()[0] == "table_changes(1)"
    wrong: list[dict[str, Any]] = [{"since": 3, "until": 2}, {"since": 1, "columns": ["x"]}]
    for options in wrong:
        with pytest.raises(InvalidInput):
            read_changes(lake, spark, "s.events", **options)
    with pytest.raises(InvalidInput, match="needs changes=True"):
        read_stream(lake, spark, "s.events", since=1)
    with pytest.raises(InvalidInput, match="must be a session of Spark"):
        read_changes(lake, object(), "s.events", since=1)  # type: ignore[arg-type]


def pump(
    spark: SparkSession, lake: lw.Lake, place: Path, commit: Callable[[Any, int], None], **by: Any
) -> None:
    """Take in all changes that there are, and stop."""
    query = (
        read_stream(lake, spark, "s.events", changes=True, **by)
        .writeStream.foreachBatch(commit)
        .option("checkpointLocation", str(place))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


@pytest.mark.full
@pytest.mark.parametrize("table", ["delta", "iceberg"], indirect=True)
def test_a_stream_has_each_change_once_whenever_it_is_started_again(
    spark: SparkSession, lake: lw.Lake, table: lw.Table, tmp_path: Path
) -> None:
    schema = "id int64, name string, _change_type string, _commit_version int64"
    lake.create("s.seen", schema)
    names = ["id", "name", "_change_type", "_commit_version"]

    def run() -> None:
        write = sink(lake, lambda tx, rows: tx.append("s.seen", rows.select(*names)), query="q")
        pump(spark, lake, tmp_path / "checkpoint", write, since=2, key="id")

    def check() -> None:
        seen = lake.table("s.seen").to_arrow(columns=names).to_pylist()
        told = table.changes(since=2, key="id").read_all().select(names).to_pylist()
        assert sorted(map(str, seen)) == sorted(map(str, told))

    run()
    check()
    run()
    check()
    table.update(set={"name": "'c'"})
    lake.table("s.events").restore(version=1)
    run()
    check()
    # As if the driver had died after the batch's commit, before Spark noted that it was done.
    last = max(int(f.name) for f in (tmp_path / "checkpoint" / "commits").glob("[0-9]*"))
    for name in (str(last), f".{last}.crc"):
        (tmp_path / "checkpoint" / "commits" / name).unlink(missing_ok=True)
    table.delete(where="id = 3")
    # With this trigger Spark gives a source in Python one batch: the one of unknown outcome first.
    run()
    run()
    check()


@pytest.mark.full
def test_a_stream_stops_when_columns_change_and_goes_on_with_the_new_ones(
    spark: SparkSession, lake: lw.Lake, table: lw.Table, tmp_path: Path
) -> None:
    batches: list[tuple[list[str], int]] = []

    def commit(rows: Any, _: int) -> None:
        batches.append((rows.columns, rows.count()))

    query = read_stream(lake, spark, "s.events", changes=True)
    table.alter().add_column("more", "int64").commit()
    table.append([{"id": 5, "name": None, "at": None, "tags": None, "more": 1}])
    writer = query.writeStream.foreachBatch(commit).trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(tmp_path / "one"))
    with pytest.raises(
        StreamingQueryException, match=r"Columns of s.events changed between versions \d and \d"
    ):
        writer.start().awaitTermination()
    assert batches == []
    pump(spark, lake, tmp_path / "one", commit)
    ((columns, count),) = batches
    assert "more" in columns
    assert count == table.changes(since=0).read_all().num_rows

    lake.drop("s.events")
    lake.create("s.events", COLUMNS)
    with pytest.raises(StreamingQueryException, match="The checkpoint is of another table"):
        pump(spark, lake, tmp_path / "one", commit)


def test_a_change_of_the_sign_of_zero_is_in_the_feed(spark: SparkSession, tmp_path: Path) -> None:
    """Of several statements, the feed has the rows by which the table differs at the end."""
    tables = {
        "plain": ("id int64, x double, y float", "id, x, float(x)"),
        "nested": (
            "id int64, x double, s struct<y: float>, m map<string, double>",
            "id, x, named_struct('y', float(x)), map('k', x)",
        ),
    }
    zeros = "VALUES (1L, 0.0d), (2L, -0.0d), (3L, double('NaN')), (4L, 1.1d), (5L, 0.0d)"
    feed = {"delta.enableChangeDataFeed": "true"}
    with lw.open(tmp_path / "lake") as lake:
        for name, (columns, values) in tables.items():
            table = lake.create(name, columns, properties=feed)
            with lake.transaction(spark=spark) as tx:
                tx.sql(f"INSERT INTO {name} SELECT {values} FROM {zeros} AS v (id, x)")
            before = table.to_arrow().to_pylist()
            with lake.transaction(spark=spark) as tx:
                tx.sql(f"UPDATE {name} SET x = -x WHERE id < 3")
                tx.sql(f"DELETE FROM {name} WHERE id = 4")
            after = table.to_arrow().to_pylist()
            rows = table.changes(since=2).read_all().to_pylist()

            # As text, in which the zeros differ.
            found = Counter((r["_change_type"][:6], *map(str, _own(r))) for r in rows)
            expected = Counter(
                ("delete", *map(str, _own(r))) for r in before if r["id"] in (1, 2, 4)
            )
            expected += Counter(("insert", *map(str, _own(r))) for r in after if r["id"] < 3)
            assert found == expected, name
            assert {str(r["x"]) for r in after if r["id"] < 3} == {"0.0", "-0.0"}


def _own(row: dict[str, Any]) -> list[Any]:
    return [value for name, value in row.items() if not name.startswith("_")]
