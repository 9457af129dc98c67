"""Policies of patterns in transactions on Spark, for both formats."""

from __future__ import annotations

from datetime import date, timedelta
from hashlib import sha1
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import lakeward as lw
from lakeward.errors import ConstraintViolation, PolicyViolation
from tests.behaviour.lakes import append, ids


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_statements_keep_to_the_policy_of_a_pattern(
    spark: SparkSession, tmp_path: Path, table_format: str
) -> None:
    with lw.open(tmp_path / "lake") as lake:
        rules = {"positive": "id > 0", "one": {"unique": ["id"]}}
        said = {"constraints": rules, "allowed_evolutions": ["set_comment"]}
        lake.set_policy("gold.*", said)
        table = lake.create("gold.t", {"id": "int64"}, format=table_format)
        append(lake, "gold.t", {"id": [1]})

        for statement, constraint in {
            "INSERT INTO gold.t VALUES (-1)": "positive",
            "INSERT INTO gold.t VALUES (1)": "one",
            "UPDATE gold.t SET id = -id": "positive",
        }.items():
            with (
                pytest.raises(ConstraintViolation) as caught,
                lake.transaction(spark=spark) as tx,
            ):
                tx.sql(statement)
            assert caught.value.constraint == constraint, statement
        tx = lake.transaction(spark=spark)
        with pytest.raises(PolicyViolation, match=r"gold\.\*"):
            tx.sql("ALTER TABLE gold.t ADD COLUMN more string")
        tx.rollback()
        assert (table.version, ids(lake, "gold.t")) == (1, [1])
        with lake.transaction(spark=spark) as tx:
            tx.sql("INSERT INTO gold.t VALUES (2)")
        assert ids(lake, "gold.t") == [1, 2]


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_a_merge_that_evolves_is_refused_by_a_strict_policy(
    spark: SparkSession, tmp_path: Path, table_format: str
) -> None:
    merge = (
        "MERGE WITH SCHEMA EVOLUTION INTO t USING (SELECT 2L AS id, 'q' AS k) s ON t.id = s.id"
        " WHEN NOT MATCHED THEN INSERT *"
    )
    with lw.open(tmp_path / "lake") as lake:
        table = lake.create("t", {"id": "int64"}, format=table_format)
        lake.set_policy("t", {"schema_mode": "strict"})
        with lake.transaction(spark=spark) as tx:
            tx.sql("INSERT INTO t VALUES (1)")
            with pytest.raises(PolicyViolation, match="policy of t says 'strict'"):
                tx.sql(merge)
        assert (table.schema.names, ids(lake, "t")) == (["id"], [1])
        lake.set_policy("t", {"schema_mode": "merge"})
        with lake.transaction(spark=spark) as tx:
            tx.sql(merge)
        assert (table.schema.names, ids(lake, "t")) == (["id", "k"], [1, 2])


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_tables_that_statements_make_keep_to_the_policy_of_their_pattern(
    spark: SparkSession, tmp_path: Path, table_format: str
) -> None:
    with lw.open(tmp_path / "lake") as lake:
        rules = {"positive": "id > 0", "one": {"unique": ["id"]}}
        features = ["row_tracking"] if table_format == "delta" else ["row_lineage"]
        lake.set_policy("gold.*", {"constraints": rules, "features": features})
        for rows, constraint in (("-1", "positive"), ("explode(array(1, 1))", "one")):
            with (
                pytest.raises(ConstraintViolation) as caught,
                lake.transaction(spark=spark) as tx,
            ):
                tx.sql(f"CREATE TABLE gold.t USING {table_format} AS SELECT {rows} AS id")
            assert caught.value.constraint == constraint
        assert lake.tables() == []
        with lake.transaction(spark=spark) as tx:
            tx.sql(f"CREATE TABLE gold.t USING {table_format} AS SELECT 1 AS id")
        protocol = lake.table("gold.t").definition.protocol
        assert "rowTracking" in protocol.get("writerFeatures", ()) or (
            protocol["format-version"] == 3
        )
        assert ids(lake, "gold.t") == [1]


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_spark_writes_files_with_the_codec_of_the_policy(
    spark: SparkSession, tmp_path: Path, table_format: str
) -> None:
    with lw.open(tmp_path / "lake") as lake:
        lake.set_policy("gold.*", {"compression": "snappy"})
        for name in ("gold.t", "plain"):
            lake.create(name, {"id": "int64"}, format=table_format)
        with lake.transaction(spark=spark) as tx:
            tx.spark.conf.set("spark.sql.parquet.compression.codec", "zstd")
            tx.sql("INSERT INTO plain VALUES (0)")
        before = {_codec(lake, "plain", file.path) for file in lake.table("plain").files()}

        with lake.transaction(spark=spark) as tx:
            tx.spark.conf.set("spark.sql.parquet.compression.codec", "zstd")
            tx.sql("INSERT INTO gold.t VALUES (1)")
            tx.sql("INSERT INTO plain VALUES (1)")
            tx.append("gold.t", [{"id": 2}])

        codecs = {
            name: {_codec(lake, name, file.path) for file in lake.table(name).files()}
            for name in ("gold.t", "plain")
        }
        assert codecs["gold.t"] == {"SNAPPY"}
        assert codecs["plain"] == before


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_spark_writes_files_of_the_size_and_with_the_statistics_of_the_policy(
    spark: SparkSession, tmp_path: Path, table_format: str
) -> None:
    with lw.open(tmp_path / "lake") as lake:
        said = {"target_file_size": "1 MB", "stats_columns": ["id", "last", "elsewhere"]}
        lake.set_policy("gold.*", said)
        columns = {"id": "int64", **{f"c{n}": "string" for n in range(28)}, "last": "int64"}
        for name in ("gold.t", "plain"):
            lake.create(name, columns, format=table_format)
        with lake.transaction(spark=spark) as tx:
            texts = ", ".join(f"concat('x', uuid()) AS c{n}" for n in range(28))
            tx.sql(f"CREATE TEMPORARY VIEW v AS SELECT id, {texts}, -id AS last FROM range(8600)")
            for name in ("gold.t", "plain"):
                tx.sql(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ * FROM v")
            tx.sql("CREATE TEMPORARY VIEW w AS SELECT /*+ REPARTITION(4) */ * FROM v LIMIT 40")
            tx.sql("INSERT INTO gold.t SELECT * FROM w")
        plain, gold = lake.table("plain").files(), lake.table("gold.t").files()
        assert len(plain) == 1
        assert plain[0].size > 4_000_000
        large = [f for f in gold if f.size > 100_000]
        assert len(large) > 3
        assert max(f.size for f in large) < 2_000_000
        assert len(gold) < len(large) + 4
        ids = {f.name: f.id for f in lake.table("gold.t").schema}
        measured = [set(f.file.stats.minimum) for f in gold if f.file.stats is not None]
        assert measured == [{ids["id"], ids["last"]}] * len(gold)
        properties = lake.table("gold.t").definition.properties
        assert not any("Stats" in key or "metrics" in key for key in properties)
        assert lake.table("gold.t").count() == lake.table("plain").count() + 40
        # A column that the policy names by another name has no statistics any more.
        with lake.transaction(spark=spark) as tx:
            tx.sql("ALTER TABLE gold.t RENAME COLUMN last TO newest")
            tx.sql("INSERT INTO gold.t SELECT * FROM gold.t LIMIT 1")
        newest = max(lake.table("gold.t").files(), key=lambda f: f.added).file.stats
        assert newest is not None
        assert set(newest.minimum) == {ids["id"]}


@pytest.mark.always("delta")
@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_spark_writes_the_bloom_filters_of_the_policy(
    spark: SparkSession, tmp_path: Path, table_format: str
) -> None:
    with lw.open(tmp_path / "lake") as lake:
        names = ("k", "id", "i", "d")
        lake.set_policy("gold.*", {"bloom_filters": list(names), "column_mapping": "id"})
        columns = {"k": "string", "id": "int64", "i": "int32", "d": "date"}
        for name in ("gold.t", "plain"):
            lake.create(name, columns, format=table_format)
        with lake.transaction(spark=spark) as tx:
            for part in range(3):
                tx.sql(
                    f"""CREATE OR REPLACE TEMPORARY VIEW v AS SELECT sha1(string(id)) AS k, id,
                    int(id) AS i, date_add(DATE'1600-01-01', int(id)) AS d
                    FROM range({part}, 150000, 3)"""
                )
                tx.sql("INSERT INTO gold.t SELECT /*+ COALESCE(1) */ * FROM v")
                tx.sql("INSERT INTO plain SELECT /*+ COALESCE(1) */ * FROM v")
        table, plain = lake.table("gold.t"), lake.table("plain")
        for number in (7, 70_000, 149_999):
            key, day = sha1(b"%d" % number).hexdigest(), date(1600, 1, 1) + timedelta(number)
            values = (f"'{key}'", number, number, f"DATE '{day}'")
            for name, value in zip(names, values, strict=True):
                found = table.to_arrow(where=f"{name} = {value}")
                assert found["id"].to_pylist() == [number], name
            assert len(table.files(where=f"k = '{key}'")) == 1
            assert len(plain.files(where=f"k = '{key}'")) == 3
            if table_format == "delta":
                assert len(table.files(where=f"id = {number}")) == 1
        assert not any("bloom" in name for name in table.definition.properties)


def _codec(lake: lw.Lake, name: str, path: str) -> str:
    footer = pq.ParquetFile(Path(lake.table(name).location) / path).metadata
    return str(footer.row_group(0).column(0).compression)
