"""JDBC: a Thrift server that has nothing of the lake but its settings, with PostgreSQL and S3."""

from __future__ import annotations

import pytest

import lakeward as lw
from lakeward.spark import settings
from tests.support.postgres import Postgres
from tests.support.s3 import S3Server
from tests.support.thrift import ThriftServer


@pytest.mark.postgres
@pytest.mark.timeout(1800)
def test_a_jdbc_client_reads_all_tables_by_name_and_writes_none(
    postgres_on_tcp: Postgres, s3_server: S3Server
) -> None:
    warehouse = f"s3://{s3_server.bucket()}/warehouse"
    with (
        postgres_on_tcp.database() as name,
        lw.open(
            postgres_on_tcp.url(name), warehouse=warehouse, storage_options=s3_server.options()
        ) as lake,
    ):
        lake.create("sales.orders", {"id": "int64", "amount": "double"})
        lake.create("gold.daily", {"id": "int64", "n": "int64"}, format="iceberg")
        with lake.transaction() as tx:
            tx.append("sales.orders", [{"id": 1, "amount": 1.5}])
            tx.append("gold.daily", [{"id": 1, "n": 7}])

        with ThriftServer(settings(lake, **{"spark.master": "local[2]"})) as server:
            lake.create("late", {"id": "int64"})
            lines, errors = server.beeline(
                "SHOW NAMESPACES",
                "SHOW TABLES IN sales",
                "SELECT o.id, amount, n FROM sales.orders o JOIN gold.daily d ON o.id = d.id",
                "SELECT count(*) FROM late",
                "INSERT INTO sales.orders VALUES (2, 2.5)",
                "INSERT INTO gold.daily VALUES (2, 8)",
                "SELECT 'the end'",
            )

        answers = ["default", "gold", "sales", "sales,orders,false", "1,1.5,7", "0", "the end"]
        assert lines == answers, errors[-3000:]
        for table in ("sales.orders", "gold.daily"):
            assert f"Table {table} belongs to the lake, which is read-only" in errors
        assert lake.table("sales.orders").version == lake.table("gold.daily").version == 1
