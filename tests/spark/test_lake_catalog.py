"""All tables of a lake by name in plain Spark SQL: read outside a transaction, never written."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import expr

import lakeward as lw
from lakeward.engines.spark.settings import lake_catalog
from lakeward.pipeline import Pipeline, new
from tests.support.inside import context_of

if TYPE_CHECKING:
    from tests.support.postgres import Postgres

REASON = "read-only outside a transaction"


@pytest.fixture
def lake(tmp_path: Path) -> Generator[lw.Lake]:
    with lw.open(tmp_path / "lake") as opened:
        _fill(opened)
        yield opened


@pytest.fixture
def plain(spark: SparkSession, lake: lw.Lake) -> SparkSession:
    return session_of(spark, lake)


def _fill(lake: lw.Lake) -> None:
    lake.create("sales.orders", {"id": "int64", "amount": "double"})
    lake.create("gold.daily", {"id": "int64", "n": "int64"}, format="iceberg")
    lake.create("notes", {"id": "int64"}, guard=False)
    with lake.transaction() as tx:
        tx.append("sales.orders", [{"id": 1, "amount": 1.5}])
        tx.append("gold.daily", [{"id": 1, "n": 7}])
    with lake.transaction() as tx:
        tx.append("notes", [{"id": 9}])


def session_of(spark: SparkSession, lake: lw.Lake, **options: str) -> SparkSession:
    """A session as a lake's own, of a Spark that was started for another lake."""
    store = context_of(lake).database.jdbc
    assert store is not None
    own = spark.newSession()
    for key, value in lake_catalog("lakeward", {**store, **options}, lake.warehouse).items():
        own.conf.set(key, value)
    return own


def rows(spark: SparkSession, sql: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in spark.sql(sql).collect())


def check_refused(what: str, write: Callable[[], Any]) -> None:
    answer = "done"
    try:
        write()
    except PySparkException as error:
        answer = str(error)
    assert REASON in answer, what


def check_reads(spark: SparkSession, lake: lw.Lake) -> None:
    """Read what `_fill` has written, and what is committed and created meanwhile."""
    assert rows(spark, "SHOW NAMESPACES") == [("default",), ("gold",), ("sales",)]
    assert rows(spark, "SHOW TABLES IN sales") == [("sales", "orders", False)]
    assert rows(spark, "SHOW TABLES") == [("default", "notes", False)]
    assert rows(spark, "DESCRIBE gold.daily") == [("id", "bigint", None), ("n", "bigint", None)]
    join = "SELECT o.id, amount, n FROM sales.orders o JOIN lakeward.gold.daily d ON o.id = d.id"
    assert rows(spark, join) == [(1, 1.5, 7)]
    assert rows(spark, "SELECT * FROM notes") == [(9,)]

    lake.create("late.arrivals", {"id": "int64"}, format="iceberg")
    with lake.transaction() as tx:
        tx.append("sales.orders", [{"id": 2, "amount": 2.5}])
        tx.append("gold.daily", [{"id": 2, "n": 8}])
        tx.append("late.arrivals", [{"id": 3}])
    assert rows(spark, join) == [(1, 1.5, 7), (2, 2.5, 8)]
    assert rows(spark, "SELECT * FROM late.arrivals") == [(3,)]
    assert ("late",) in rows(spark, "SHOW NAMESPACES")
    lake.drop("late.arrivals")
    assert not spark.catalog.tableExists("late.arrivals")


def test_all_tables_are_read_by_name_as_they_are_now(plain: SparkSession, lake: lw.Lake) -> None:
    check_reads(plain, lake)


@pytest.mark.postgres
def test_a_store_on_postgres_is_read_the_same_way(
    spark: SparkSession, postgres_on_tcp: Postgres, tmp_path: Path
) -> None:
    with (
        postgres_on_tcp.database() as name,
        lw.open(postgres_on_tcp.url(name), warehouse=tmp_path) as lake,
    ):
        _fill(lake)
        check_reads(session_of(spark, lake), lake)


def test_older_versions_go_by_the_numbers_of_the_lake(plain: SparkSession, lake: lw.Lake) -> None:
    with lake.transaction() as tx:
        tx.delete("sales.orders", where="id = 1")
        tx.delete("gold.daily", where="id = 1")

    assert (
        rows(plain, "SELECT * FROM gold.daily") == rows(plain, "SELECT * FROM sales.orders") == []
    )
    assert rows(plain, "SELECT * FROM sales.orders VERSION AS OF 1") == [(1, 1.5)]
    assert rows(plain, "SELECT * FROM gold.daily VERSION AS OF 1") == [(1, 7)]
    assert rows(plain, "SELECT count(*) FROM gold.daily.snapshots") == [(2,)]
    with pytest.raises(PySparkException, match="has no snapshot of it"):
        plain.sql("SELECT * FROM gold.daily VERSION AS OF 0")
    with pytest.raises(AnalysisException, match="Available versions"):
        rows(plain, "SELECT * FROM sales.orders VERSION AS OF 7")


STATEMENTS = [
    "INSERT INTO {t} SELECT * FROM {t}",
    "INSERT INTO lakeward.{f} SELECT * FROM {t}",
    "INSERT OVERWRITE {t} SELECT * FROM {t}",
    "INSERT INTO {t} SELECT * FROM sales.orders",
    "UPDATE {t} SET id = 2",
    "UPDATE {t} SET id = 2 WHERE id IN (SELECT id FROM {t})",
    "DELETE FROM {t}",
    "DELETE FROM {t} WHERE id IN (SELECT id FROM {t})",
    "MERGE INTO {t} USING (SELECT 1 AS one) ON id = one WHEN MATCHED THEN DELETE",
    "MERGE INTO {t} USING {t} AS s ON {t}.id = s.id WHEN MATCHED THEN DELETE",
    "TRUNCATE TABLE {t}",
    "ALTER TABLE {t} ADD COLUMN x INT",
    "ALTER TABLE {t} RENAME TO other",
    "ALTER TABLE {t} SET TBLPROPERTIES ('x' = 'y')",
    "COMMENT ON TABLE {t} IS 'mine'",
    "CREATE OR REPLACE TABLE {t} USING delta AS SELECT 1 AS id",
    "DROP TABLE {t}",
]
OF_DELTA = [
    "OPTIMIZE {t}",
    "VACUUM {t}",
    "REORG TABLE {t} APPLY (PURGE)",
    "RESTORE TABLE {t} TO VERSION AS OF 0",
    "ALTER TABLE {t} ADD CONSTRAINT c CHECK (id > 0)",
    "GENERATE symlink_format_manifest FOR TABLE {t}",
]
OF_ICEBERG = [
    "ALTER TABLE {t} ADD PARTITION FIELD id",
    "ALTER TABLE {t} CREATE BRANCH b",
    "ALTER TABLE lakeward.{f} WRITE ORDERED BY id",
]
OF_NO_TABLE = [
    "CREATE TABLE fresh (id INT)",
    "CREATE TABLE sales.fresh USING delta AS SELECT 1 AS id",
    "CREATE NAMESPACE fresh",
    "DROP NAMESPACE sales CASCADE",
]


@pytest.mark.parametrize("name", ["sales.orders", "gold.daily", "notes"])
def test_statements_that_write_are_refused_with_the_reason(
    plain: SparkSession, lake: lw.Lake, name: str
) -> None:
    own = {"gold.daily": OF_ICEBERG, "notes": OF_DELTA + OF_NO_TABLE}.get(name, OF_DELTA)
    before = _files(lake)
    full = name if "." in name else f"default.{name}"

    for statement in STATEMENTS + own:
        text = statement.format(t=name, f=full)
        check_refused(text, partial(plain.sql, text))

    assert _files(lake) == before
    assert lake.table(name).version == 1
    assert rows(plain, "DROP TABLE IF EXISTS nope") == []
    with pytest.raises(AnalysisException, match="cannot be found"):
        plain.sql("INSERT INTO nope VALUES (1)")


def test_a_procedure_of_iceberg_is_refused(plain: SparkSession) -> None:
    with pytest.raises(AnalysisException, match="does not support procedures"):
        plain.sql("CALL lakeward.system.expire_snapshots('gold.daily')")


@pytest.mark.parametrize(
    "name", ["gold.daily", "notes"], ids=["an Iceberg table", "a Delta table without guard"]
)
def test_writers_of_frames_and_streams_are_refused(
    plain: SparkSession, lake: lw.Lake, name: str, tmp_path: Path
) -> None:
    using = lake.table(name).format
    frame = plain.sql(f"SELECT * FROM {name}")
    before = _files(lake)
    everything: dict[str, Callable[[], Any]] = {
        "insertInto": lambda: frame.write.insertInto(name),
        "saveAsTable": lambda: frame.write.format(using).mode("append").saveAsTable(name),
        "save": lambda: frame.write.format("iceberg").mode("append").save("lakeward.gold.daily"),
        "writeTo": lambda: frame.writeTo(name).append(),
        "overwrite": lambda: frame.writeTo(name).overwritePartitions(),
        "mergeInto": lambda: frame.mergeInto(name, expr("true")).whenMatched().delete().merge(),
        "stream": lambda: (
            plain.readStream.table(name)
            .writeStream.format(using)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .toTable(name)
            .awaitTermination()
        ),
    }

    for how, write in everything.items():
        check_refused(how, write)

    assert _files(lake) == before
    assert lake.table(name).version == 1


def test_a_transaction_writes_and_keeps_its_own_view(plain: SparkSession, lake: lw.Lake) -> None:
    with lake.transaction(spark=plain) as tx:
        tx.sql("INSERT INTO sales.orders VALUES (2, 2.5)")
        tx.sql("INSERT INTO lakeward.gold.daily SELECT id, 8 FROM lakeward.sales.orders")
        assert [r[0] for r in tx.sql("SELECT count(*) FROM gold.daily").collect()] == [3]
        assert rows(plain, "SELECT count(*) FROM gold.daily") == [(1,)]
        with pytest.raises(AnalysisException, match="cannot be found"):
            # It would be the committed table, not the transaction's.
            tx.spark.sql("SELECT * FROM gold.daily")

    assert rows(plain, "SELECT count(*) FROM gold.daily") == [(3,)]
    assert rows(plain, "SELECT count(*) FROM sales.orders") == [(2,)]


def test_paths_and_tables_outside_the_lake_are_used_as_ever(
    plain: SparkSession, lake: lw.Lake, tmp_path: Path
) -> None:
    path = f"delta.`{tmp_path}/elsewhere`"
    plain.sql(f"CREATE TABLE {path} USING delta AS SELECT * FROM sales.orders")
    plain.sql(f"INSERT INTO {path} VALUES (2, 2.5)")
    plain.sql(f"UPDATE {path} SET amount = 0 WHERE id = 1")
    plain.sql(f"ALTER TABLE {path} ADD COLUMN x INT")
    plain.sql(f"OPTIMIZE {path}")
    assert rows(plain, f"SELECT id, amount FROM {path}") == [(1, 0.0), (2, 2.5)]
    assert rows(plain, f"SELECT count(*) FROM {path} VERSION AS OF 0") == [(1,)]
    plain.sql(f"CREATE OR REPLACE TABLE {path} USING delta AS SELECT 5 AS id")
    assert rows(plain, f"SELECT * FROM {path}") == [(5,)]

    plain.sql("CREATE TABLE spark_catalog.default.own_table USING delta AS TABLE gold.daily")
    assert rows(plain, "SELECT * FROM spark_catalog.default.own_table") == [(1, 7)]
    plain.sql("DROP TABLE spark_catalog.default.own_table")


def test_a_commit_that_is_not_published_is_reported_instead_of_older_rows(
    spark: SparkSession, lake: lw.Lake
) -> None:
    log = Path(lake.table("sales.orders").location) / "_delta_log"
    newest = log / f"{1:020}.json"
    content = newest.read_bytes()
    newest.unlink()
    plain = session_of(spark, lake, **{"publication-wait-seconds": "0"})

    with pytest.raises(PySparkException, match=r"Version 1 of table .* is committed"):
        plain.sql("SELECT * FROM sales.orders")

    newest.write_bytes(content)
    assert rows(plain, "SELECT * FROM sales.orders") == [(1, 1.5)]


def test_one_name_of_two_tables_is_refused(plain: SparkSession, lake: lw.Lake) -> None:
    lake.create("default.notes", "id int64")

    for name in ("notes", "default.notes"):
        with pytest.raises(PySparkException, match="tables notes and default"):
            rows(plain, f"SELECT * FROM {name}")
    assert rows(plain, "SELECT id FROM sales.orders") == [(1,)]


def test_a_pipeline_reads_new_rows_of_an_iceberg_table(plain: SparkSession, lake: lw.Lake) -> None:
    pipeline = Pipeline("copies")

    @pipeline.step("copy", schema="id int64, n int64", mode="append")
    def copy(rows: Any = new("gold.daily")) -> Any:
        return rows

    pipeline.run(lake, plain)
    with lake.transaction() as tx:
        tx.append("gold.daily", [{"id": 2, "n": 8}])
    pipeline.run(lake, plain)

    assert rows(plain, "SELECT * FROM copy") == [(1, 7), (2, 8)]


def _files(lake: lw.Lake) -> set[Path]:
    return {p for p in Path(lake.warehouse).rglob("*") if "lakeward.db" not in p.name}
