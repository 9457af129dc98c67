"""Policies of patterns in transactions on Spark, for both formats."""

from __future__ import annotations

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


def _codec(lake: lw.Lake, name: str, path: str) -> str:
    footer = pq.ParquetFile(Path(lake.table(name).location) / path).metadata
    return str(footer.row_group(0).column(0).compression)
