"""Spark through the Iceberg REST catalog of the service: create, write, read, evolve, drop."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakeward as lw
from tests.support.service import Service

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CATALOG = "rest"


@pytest.fixture
def service(tmp_path: Path) -> Generator[Service]:
    """A lake with one namespace, and its service."""
    with lw.open(tmp_path / "lake") as lake, Service(lake, anonymous=None, rate=1e6) as service:
        yield service


@pytest.fixture
def sql(spark: SparkSession, service: Service) -> Any:
    """Runs a statement in a session whose catalog is the service."""
    session = spark.newSession()
    token = service.lake.create_token("spark", role="admin").secret
    settings = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "rest",
        ".uri": f"{service.url}/iceberg",
        ".token": token,
        ".cache-enabled": "false",
    }
    for name, value in settings.items():
        session.conf.set(f"spark.sql.catalog.{CATALOG}{name}", value)

    def run(text: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in session.sql(text).collect()]

    return run


def test_spark_creates_writes_reads_evolves_and_drops(sql: Any, service: Service) -> None:
    sql("CREATE NAMESPACE rest.shop")
    sql(
        "CREATE TABLE rest.shop.orders (id BIGINT NOT NULL COMMENT 'key', region STRING, n INT)"
        " USING iceberg PARTITIONED BY (region)"
    )
    sql("INSERT INTO rest.shop.orders VALUES (1, 'eu', 1), (2, 'us', 2), (3, 'eu', 3)")
    first = sql("SELECT snapshot_id FROM rest.shop.orders.snapshots")[0][0]
    sql("UPDATE rest.shop.orders SET n = 20 WHERE id = 2")
    sql("DELETE FROM rest.shop.orders WHERE id = 3")
    sql("ALTER TABLE rest.shop.orders ADD COLUMN note STRING")
    sql("ALTER TABLE rest.shop.orders ALTER COLUMN n TYPE BIGINT")
    sql("ALTER TABLE rest.shop.orders RENAME COLUMN n TO quantity")
    sql(
        "MERGE INTO rest.shop.orders t USING (SELECT 1 AS id UNION ALL SELECT 9) s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET note = 'seen'"
        " WHEN NOT MATCHED THEN INSERT (id, region, quantity) VALUES (s.id, 'eu', 9)"
    )

    wanted = [(1, "eu", 1, "seen"), (2, "us", 20, None), (9, "eu", 9, None)]
    assert sql("SELECT * FROM rest.shop.orders ORDER BY id") == wanted
    assert sql(f"SELECT count(*) FROM rest.shop.orders VERSION AS OF {first}") == [(3,)]
    table = service.lake.table("shop.orders")
    assert rows(table) == wanted
    assert table.partition_by == ["region"]
    assert table.schema.by_name["id"].comment == "key"
    assert {v.actor for v in table.history()} == {"spark"}
    # The lake writes on, and Spark reads that.
    table.append([{"id": 10, "region": "us", "quantity": 1, "note": None}])
    assert sql("SELECT count(*) FROM rest.shop.orders") == [(4,)]
    sql("ALTER TABLE rest.shop.orders RENAME TO shop.renamed")
    assert sql("SHOW TABLES IN rest.shop") == [("shop", "renamed", False)]
    assert service.lake.table("shop.renamed").count() == 4
    assert service.lake.doctor().healthy
    sql("DROP TABLE rest.shop.renamed")
    sql("DROP NAMESPACE rest.shop")
    assert service.lake.tables() == []


def test_deletes_by_delete_files_are_kept(sql: Any, service: Service) -> None:
    sql("CREATE NAMESPACE rest.shop")
    sql(
        "CREATE TABLE rest.shop.t (id BIGINT, n INT) USING iceberg TBLPROPERTIES ("
        "'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read',"
        " 'write.merge.mode'='merge-on-read')"
    )
    sql("INSERT INTO rest.shop.t SELECT id, 0 FROM range(10)")
    sql("DELETE FROM rest.shop.t WHERE id < 3")
    sql("UPDATE rest.shop.t SET n = 1 WHERE id = 5")

    wanted = [(3, 0), (4, 0), (5, 1), (6, 0), (7, 0), (8, 0), (9, 0)]
    assert sql("SELECT * FROM rest.shop.t ORDER BY id") == wanted
    assert rows(service.lake.table("shop.t")) == wanted
    assert service.lake.doctor().healthy


def test_replaced_tables_branches_and_views(sql: Any, service: Service) -> None:
    sql("CREATE NAMESPACE rest.shop")
    sql("CREATE TABLE rest.shop.t USING iceberg AS SELECT id FROM range(5)")
    sql("CREATE OR REPLACE TABLE rest.shop.t USING iceberg AS SELECT id, 'x' AS s FROM range(3)")
    sql("ALTER TABLE rest.shop.t CREATE BRANCH audit")
    sql("INSERT INTO rest.shop.t.branch_audit VALUES (9, 'y')")
    sql("ALTER TABLE rest.shop.t CREATE TAG before")

    assert sql("SELECT count(*) FROM rest.shop.t") == [(3,)]
    assert sql("SELECT count(*) FROM rest.shop.t.branch_audit") == [(4,)]
    table = service.lake.table("shop.t")
    assert (table.count(), table.schema.names) == (3, ["id", "s"])
    assert table.at(version=table.version - 1).count() in (3, 5)
    sql("CREATE VIEW rest.shop.v AS SELECT max(id) AS most FROM rest.shop.t")
    assert sql("SELECT most FROM rest.shop.v") == [(2,)]
    sql("DROP VIEW rest.shop.v")
    sql("CALL rest.system.fast_forward('shop.t', 'main', 'audit')")
    assert sorted(r[0] for r in rows(table)) == [0, 1, 2, 9]
    assert service.lake.doctor().healthy


def rows(table: lw.Table) -> list[tuple[Any, ...]]:
    """The rows as the lake reads them."""
    return sorted(tuple(row.values()) for row in table.to_arrow().to_pylist())
