"""Delta tables with each feature, made by Spark or by the lake: read, written, branched, on Spark.

What the embedded engine cannot write is refused before anything is written, and Spark writes it.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession

import lakeward as lw
from lakeward.errors import UnsupportedFeature
from tests.behaviour.lakes import unchanged

_FEATURES = {
    "defaults, generated columns, timestamps": (
        "id BIGINT, n INT DEFAULT 7, m BIGINT GENERATED ALWAYS AS (id * 2 + n)",
        (
            "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported',"
            " 'delta.enableInCommitTimestamps' = 'true')"
        ),
    ),
    "row tracking, v2 checkpoints": (
        "id BIGINT, n INT",
        (
            "TBLPROPERTIES ('delta.enableRowTracking' = 'true', 'delta.checkpointPolicy' = 'v2',"
            " 'delta.checkpointInterval' = '2')"
        ),
    ),
    "clustering": ("id BIGINT, n INT", "CLUSTER BY (n)"),
}
_DEFAULTS, _ROW_TRACKING, _ = _FEATURES


@pytest.fixture
def lake(tmp_path: Path) -> Generator[lw.Lake]:
    """A lake of its own."""
    with lw.open(tmp_path / "lake") as opened:
        yield opened


def _made(spark: SparkSession, place: Path, feature: str, mapping: str | None = None) -> None:
    columns, rest = _FEATURES[feature]
    if mapping is not None:
        rest = rest.replace("(", f"('delta.columnMapping.mode' = '{mapping}', ", 1)
    spark.sql(f"CREATE TABLE delta.`{place}` ({columns}) USING delta {rest}")
    spark.sql(f"INSERT INTO delta.`{place}` (id, n) VALUES (1, 10), (2, 20), (3, 30)")


@pytest.mark.parametrize("feature", list(_FEATURES))
@pytest.mark.always("row tracking", "defaults")
def test_a_table_of_spark_is_written_by_all_and_keeps_its_feature(
    spark: SparkSession, lake: lw.Lake, tmp_path: Path, feature: str
) -> None:
    place = tmp_path / "made"
    _made(spark, place, feature)
    table = lake.adopt("t", place)
    before = _state(spark, place)
    table.append([{"id": 4, "n": 40}, {"id": 5, "n": 50}])
    if feature == _DEFAULTS:
        table.append([{"id": 6}])
    with lake.transaction() as tx:
        tx.update("t", set={"n": "n + 1"}, where="id IN (1, 4)")
        tx.delete("t", where="id = 2")
    with lake.transaction(spark=spark) as tx:
        tx.sql("UPDATE t SET n = n + 1 WHERE id IN (1, 5)")
        tx.sql("DELETE FROM t WHERE id = 3")
    with lake.transaction(spark=spark) as tx:
        tx.sql("INSERT INTO t (id, n) VALUES (9, 90)")
    branch = lake.branch("later", tables=["t"])
    spark.sql(f"INSERT INTO delta.`{branch.table('t').location}` (id, n) VALUES (10, 100)")
    branch.publish()

    expected = {1: 12, 4: 41, 5: 51, 9: 90, 10: 100} | ({6: 7} if feature == _DEFAULTS else {})
    rows = table.to_arrow().to_pylist()
    assert {r["id"]: r["n"] for r in rows} == expected
    if feature == _DEFAULTS:
        assert all(r["m"] == 2 * r["id"] + r["n"] for r in rows)
    seen = spark.read.format("delta").load(str(place)).collect()
    assert {r["id"]: r["n"] for r in seen} == expected
    others = QueryBuilder().register("t", DeltaTable(place)).execute("SELECT id, n FROM t")
    assert {r["id"]: r["n"] for r in pa.table(others).to_pylist()} == expected
    after = _state(spark, place)
    assert after["features"] >= before["features"]
    assert after["clustering"] == before["clustering"]
    assert after["schema"] == before["schema"]


@pytest.mark.parametrize("mapping", ["none", "id"])
@pytest.mark.always("id]")
def test_ids_of_rows_are_what_spark_says(
    spark: SparkSession, lake: lw.Lake, tmp_path: Path, mapping: str
) -> None:
    place = tmp_path / "made"
    _made(spark, place, _ROW_TRACKING, mapping)
    table = lake.adopt("t", place)
    before = _ids(spark, place)
    with lake.transaction() as tx:
        tx.update("t", set={"n": "0"}, where="id = 2")
        tx.append("t", [{"id": 4, "n": 0}])
    assert {n: i for n, (i, _) in _ids(spark, place).items() if n < 4} == {
        n: i for n, (i, _) in before.items()
    }
    with lake.transaction(spark=spark) as tx:
        tx.sql(
            "MERGE INTO t USING (SELECT 4L AS id UNION ALL SELECT 5L) s ON t.id = s.id"
            " WHEN MATCHED THEN UPDATE SET n = 1 WHEN NOT MATCHED THEN INSERT (id, n)"
            " VALUES (s.id, 5)"
        )
    with lake.transaction(spark=spark) as tx:
        tx.sql("INSERT INTO t VALUES (7, 7)")
        # The branch does not know of it, and gave its row the same id.
        table.append([{"id": 6, "n": 6}])
    table.optimize()
    after = _ids(spark, place)
    assert sorted(after) == [1, 2, 3, 4, 5, 6, 7]
    assert len({i for i, _ in after.values()}) == 7
    assert [after[n] for n in (1, 3)] == [before[n] for n in (1, 3)]
    assert after[2] == (before[2][0], 3)
    refused = pytest.raises(UnsupportedFeature, match="share ids")
    with unchanged(lake), refused, lake.transaction(spark=spark) as tx:
        tx.sql("INSERT INTO t VALUES (20, 0), (21, 0)")
        tx.sql("UPDATE t SET n = 1 WHERE id = 20")


def test_tables_of_the_lake_have_their_features_on_spark(
    spark: SparkSession, lake: lw.Lake
) -> None:
    table = lake.create(
        "t",
        "id int64, n int32 default 7, m int64 generated always as (id * 2 + n), s string",
        properties={
            "delta.enableRowTracking": "true",
            "delta.checkpointPolicy": "v2",
            "delta.checkpointInterval": "2",
        },
    )
    table.append([{"id": 1, "s": "a"}])
    table.alter().add_column("c", "string", default="'it\\'s'").rename_column("s", "t").commit()
    with lake.transaction(spark=spark) as tx:
        tx.sql("INSERT INTO t (id) VALUES (2)")
    table.append([{"id": 3, "n": 1, "t": None}])
    lake.publish()
    rows = spark.read.format("delta").load(table.location)
    found = {r["id"]: (r["n"], r["m"], r["t"], r["c"]) for r in rows.collect()}
    assert found == {1: (7, 9, "a", None), 2: (7, 11, None, "it's"), 3: (1, 7, None, "it's")}
    assert sorted(r["row_id"] for r in rows.select("_metadata.row_id").collect()) == [0, 1, 2]


def test_an_identity_column_counts_on_with_every_engine(
    spark: SparkSession, lake: lw.Lake, tmp_path: Path
) -> None:
    place = tmp_path / "made"
    spark.sql(
        f"CREATE TABLE delta.`{place}` (id BIGINT GENERATED ALWAYS AS IDENTITY, n INT) USING delta"
    )
    spark.sql(f"INSERT INTO delta.`{place}` (n) VALUES (1), (2)")
    table = lake.adopt("t", place)
    table.append([{"n": 3}])
    with lake.transaction(spark=spark) as tx:
        tx.sql("INSERT INTO t (n) VALUES (4)")
        tx.sql("ALTER TABLE t ADD COLUMN note STRING")
        tx.sql(
            "MERGE INTO t USING (SELECT 4 AS n UNION ALL SELECT 5) s ON t.n = s.n"
            " WHEN MATCHED THEN UPDATE SET note = 'm' WHEN NOT MATCHED THEN INSERT (n) VALUES (s.n)"
        )
    table.append([{"n": 6}])
    assert [r["n"] for r in table.to_arrow().sort_by("id").to_pylist()] == [1, 2, 3, 4, 5, 6]
    first, second = lake.transaction(spark=spark), lake.transaction(spark=spark)
    branch = lake.branch("b", tables=["t"])
    first.sql("INSERT INTO t (n) VALUES (7)")
    second.append("t", spark.createDataFrame([(8,)], "n int"))
    spark.sql(f"INSERT INTO delta.`{branch.table('t').location}` (n) VALUES (9)")
    table.append([{"n": 10}])
    second.commit()
    first.commit()
    branch.publish()
    table.append([{"n": 11}])
    for statement in ("INSERT INTO t (id, n) VALUES (1, 1)", "UPDATE t SET id = 1 WHERE n = 2"):
        with pytest.raises(Exception, match="DELTA_IDENTITY"), lake.transaction(spark=spark) as tx:
            tx.sql(statement)
    rows = spark.read.format("delta").load(str(place)).collect()
    assert sorted(r["n"] for r in rows) == list(range(1, 12))
    assert len({r["id"] for r in rows}) == 11
    with lake.transaction(spark=spark) as tx:
        tx.sql(
            "CREATE TABLE made (id BIGINT GENERATED BY DEFAULT AS IDENTITY (START WITH 5), "
            "s STRING DEFAULT 'x', d STRING GENERATED ALWAYS AS (concat(s, '!'))) USING delta"
        )
        tx.sql("INSERT INTO made (s) VALUES ('a')")
    made = lake.table("made")
    made.append([{"id": 100}])
    made.append([{"s": "b"}])
    found = [(r["id"], r["s"], r["d"]) for r in made.to_arrow().sort_by("id").to_pylist()]
    assert found == [(5, "a", "a!"), (100, "x", "x!"), (101, "b", "b!")]


def _state(spark: SparkSession, place: Path) -> dict[str, Any]:
    detail = spark.sql(f"DESCRIBE DETAIL delta.`{place}`").collect()[0]
    fields = spark.read.format("delta").load(str(place)).schema.fields
    own = "lakeward."
    return {
        "features": set(detail["tableFeatures"]),
        "clustering": detail["clusteringColumns"],
        "schema": [
            (f.name, f.dataType, {k: v for k, v in f.metadata.items() if not k.startswith(own)})
            for f in fields
        ],
    }


def _ids(spark: SparkSession, place: Path) -> dict[int, tuple[int, int]]:
    rows = spark.read.format("delta").load(str(place))
    found = rows.select("id", "_metadata.row_id", "_metadata.row_commit_version").collect()
    return {r[0]: (r[1], r[2]) for r in found}
