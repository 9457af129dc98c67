"""A session wired for the lake: both formats, the store's catalog, and settings of one's own."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

import lakeward as lw
from lakeward.engines.spark.settings import iceberg_catalog, settings
from lakeward.engines.spark.versions import LAKE_CATALOG
from lakeward.errors import InvalidInput
from lakeward.spark import configure, session
from tests.support.inside import context_of

if TYPE_CHECKING:
    from tests.support.postgres import Postgres


def rows(spark: SparkSession, sql: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in spark.sql(sql).collect())


@contextmanager
def catalog_of(spark: SparkSession, lake: lw.Lake, name: str) -> Generator[SparkSession]:
    """A session that has the lake's catalog under a name; in it, it is still called `lakeward`."""
    other = spark.newSession()
    store = context_of(lake).database.jdbc
    assert store is not None
    for key, value in iceberg_catalog(name, store, lake.warehouse).items():
        other.conf.set(key, value)
    yield other


def test_reads_tables_of_both_formats(spark: SparkSession, tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake") as lake:
        lake.create("sales.orders", {"id": "int64"})
        lake.create("sales.customers", {"id": "int64"}, format="iceberg")
        with lake.transaction() as tx:
            tx.append("sales.orders", [{"id": 1}])
            tx.append("sales.customers", [{"id": 2}])
        location = lake.table("sales.orders").location
        pointer = lake.table("sales.customers").at().metadata_location

        assert rows(spark, f"SELECT * FROM delta.`{location}`") == [(1,)]
        assert spark.read.format("iceberg").load(str(pointer)).count() == 1


def test_the_catalog_is_the_lakes_own_on_sqlite(spark: SparkSession) -> None:
    place = spark.conf.get("spark.sql.catalog.lakeward.uri")
    assert place is not None
    lake = lw.open(Path(place.removeprefix("jdbc:sqlite:")).parent)
    lake.create("sales.customers", {"id": "int64"}, format="iceberg")
    with lake.transaction() as tx:
        tx.append("sales.customers", [{"id": 1}])

    assert rows(spark, "SELECT * FROM sales.customers") == [(1,)]
    assert rows(spark, "SELECT * FROM lakeward.sales.customers") == [(1,)]
    lake.close()


@pytest.mark.postgres
def test_a_catalog_of_iceberg_itself_is_followed_on_postgres(
    spark: SparkSession, postgres_on_tcp: Postgres, tmp_path: Path
) -> None:
    with postgres_on_tcp.database() as name:
        lake = lw.open(postgres_on_tcp.url(name), warehouse=tmp_path)
        lake.create("customers", {"id": "int64"}, format="iceberg")
        with catalog_of(spark, lake, "lakeward") as other:
            other.sql("INSERT INTO lakeward.default.customers VALUES (2)")
        assert lake.table("customers").to_arrow()["id"].to_pylist() == [2]
        lake.close()


def test_a_store_behind_a_socket_gives_no_catalog(postgres_url: str, tmp_path: Path) -> None:
    with lw.open(postgres_url, warehouse=tmp_path) as lake:
        assert context_of(lake).database.jdbc is None


def test_what_the_user_sets_wins_and_lists_are_joined() -> None:
    own = {
        "spark.sql.extensions": "com.example.Mine",
        "spark.jars": "mine.jar",
        "spark.sql.session.timeZone": "Europe/Berlin",
    }

    found = settings(own, catalog="lakeward", store=None, warehouse="/w", jars=["a.jar"])

    assert found["spark.jars"] == "a.jar,mine.jar"
    assert found["spark.sql.extensions"].endswith("LakeExtensions,com.example.Mine")
    assert found["spark.sql.session.timeZone"] == "Europe/Berlin"
    assert not [key for key in found if key.startswith("spark.sql.catalog.lakeward")]


def test_a_cluster_gets_nothing_that_only_suits_one_machine() -> None:
    own = {"spark.master": "spark://host:7077"}

    found = settings(own, catalog="lakeward", store=None, warehouse="/w", jars=[])

    assert found["spark.master"] == "spark://host:7077"
    assert "spark.driver.bindAddress" not in found
    assert "spark.sql.shuffle.partitions" not in found


def test_what_is_told_on_standard_error_is_left_to_whoever_has_seen_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def options(given: str = "") -> str:
        own = {"spark.driver.extraJavaOptions": given}
        found = settings(own, catalog="lakeward", store=None, warehouse="/w", jars=[])
        return found["spark.driver.extraJavaOptions"]

    for name in ("SPARK_HOME", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    own = options("-Xss4m")
    place = own.removeprefix("-Xss4m -Dlog4j2.configurationFile=file://")
    assert Path(place).read_text().count("rootLogger.level = warn") == 1
    assert options("-Dlog4j2.configurationFile=mine") == "-Dlog4j2.configurationFile=mine"
    monkeypatch.setenv("SPARK_CONF_DIR", "/etc/spark")
    assert options("-Xss4m") == "-Xss4m"


def test_a_builder_keeps_its_own_settings(spark: SparkSession, tmp_path: Path) -> None:
    builder = SparkSession.Builder().config("spark.sql.shuffle.partitions", "7")
    with lw.open(tmp_path / "lake") as lake:
        made = configure(builder, lake, **{"spark.sql.ansi.enabled": False})

    options = made._options
    assert options["spark.sql.shuffle.partitions"] == "7"
    assert options["spark.sql.ansi.enabled"] == "false"
    assert "delta-spark" in options["spark.jars"]
    assert options["spark.sql.catalog.lakeward.uri"].startswith("jdbc:sqlite:")
    assert options["spark.sql.defaultCatalog"] == "lakeward"
    assert options["spark.sql.catalog.lakeward"] == LAKE_CATALOG


def test_a_running_session_that_lacks_the_formats_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    from lakeward.engines.spark.extra import check

    class Bare:
        sparkContext = None  # noqa: N815  as pyspark calls it

        class conf:  # noqa: N801  as pyspark calls it
            @staticmethod
            def get(key: str, default: str) -> str:
                return default

    with pytest.raises(InvalidInput, match="without delta and iceberg"):
        check(Bare())  # type: ignore[arg-type]


def test_a_second_session_is_the_running_one(spark: SparkSession, tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake") as lake:
        again = session(lake, master="local[2]")

    assert again.sparkContext is spark.sparkContext
