"""Spark through the Iceberg REST catalog of the service: create, write, read, evolve, drop."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import lakeward as lw
from tests.support.service import Service

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_spark_creates_writes_reads_evolves_and_drops(spark: SparkSession, tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake") as lake, Service(lake, anonymous=None) as service:
        token = lake.create_token("spark", role="admin").secret
        session = spark.newSession()
        catalog = "spark.sql.catalog.over_rest"
        session.conf.set(catalog, "org.apache.iceberg.spark.SparkCatalog")
        for name, value in {
            "type": "rest",
            "uri": f"{service.url}/iceberg",
            "token": token,
        }.items():
            session.conf.set(f"{catalog}.{name}", value)

        session.sql("CREATE NAMESPACE over_rest.spark")
        session.sql("CREATE TABLE over_rest.spark.t (id BIGINT, part STRING) USING iceberg")
        session.sql("INSERT INTO over_rest.spark.t VALUES (1, 'a'), (2, 'b')")
        session.sql("ALTER TABLE over_rest.spark.t ADD COLUMN note STRING")
        session.sql("UPDATE over_rest.spark.t SET note = 'x' WHERE id = 1")
        session.sql("DELETE FROM over_rest.spark.t WHERE id = 2")
        session.sql("CREATE TABLE over_rest.spark.made USING iceberg AS SELECT 7 AS n")
        rows = [tuple(row) for row in session.sql("SELECT * FROM over_rest.spark.t").collect()]

        assert rows == [(1, "a", "x")]
        own = lake.table("spark.t")
        assert own.to_arrow().to_pylist() == [{"id": 1, "part": "a", "note": "x"}]
        assert lake.table("spark.made").to_arrow().to_pylist() == [{"n": 7}]
        assert {v.actor for v in own.history()} == {"spark"}
        assert lake.doctor().healthy
        # The lake goes on where Spark ended, and Spark sees it.
        own.append([{"id": 5, "part": "c", "note": None}])
        session.sql("REFRESH TABLE over_rest.spark.t")
        assert session.table("over_rest.spark.t").count() == 2
        session.sql("DROP TABLE over_rest.spark.t")
        assert [t.name for t in lake.tables()] == ["spark.made"]
