"""After each kind of change made on Spark, others read what we read, for all versions."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakeward as lw
from tests.behaviour.samples import exact_rows
from tests.interop.readers import PEERS_PYTHON, DeltaRs, DuckDb, as_ours
from tests.interop.test_altered_tables_agree import altered_in_delta, altered_in_iceberg
from tests.support.iceberg import stranger_arrow

_COLUMNS = (
    "id int32, amount float, note string, p string,"
    " address struct<street: string, city: string>, items array<struct<price: int32>>"
)
_ADDRESS = "named_struct('street', 's', 'city', 'c')"
_STEPS = (
    f"INSERT INTO t VALUES (1, 1.5, 'a', 'x', {_ADDRESS}, array(named_struct('price', 1)))",
    "ALTER TABLE t ADD COLUMN currency string AFTER amount",
    "UPDATE t SET currency = 'EUR' WHERE id = 1",
    "ALTER TABLE t ADD COLUMN address.zip string FIRST",
    "INSERT INTO t SELECT id + 1, amount, currency, 'b', 'y', address, items FROM t WHERE id = 1",
    "ALTER TABLE t ALTER COLUMN id SET NOT NULL",
    "ALTER TABLE t ALTER COLUMN note FIRST",
    "ALTER TABLE t RENAME COLUMN amount TO total",
    "ALTER TABLE t RENAME COLUMN address.street TO road",
    "INSERT INTO t SELECT note, id + 2, total, currency, 'y', address, items FROM t WHERE id = 1",
    "ALTER TABLE t RENAME COLUMN p TO part",
    "UPDATE t SET total = total + 1 WHERE part = 'y'",
    "ALTER TABLE t DROP COLUMN note",
    "ALTER TABLE t DROP COLUMN address.city",
    "INSERT INTO t SELECT id + 3, total, currency, 'z', address, items FROM t WHERE id = 1",
    "ALTER TABLE t ADD COLUMN note bigint",
    "ALTER TABLE t ADD COLUMN items.element.n bigint",
    "DELETE FROM t WHERE id = 2",
    "INSERT INTO t SELECT 9, 9.5, 'CHF', 'z', address, items, 7 FROM t WHERE id = 1",
)
_WIDER = (
    "ALTER TABLE t ALTER COLUMN id TYPE bigint",
    "ALTER TABLE t ALTER COLUMN total TYPE double",
    "INSERT INTO t SELECT 5000000000, 1e300, 'CHF', 'z', address, items, 7 FROM t WHERE id = 1",
    "UPDATE t SET note = 1 WHERE id = 1",
)


@pytest.fixture(scope="module")
def duckdb(tmp_path_factory: pytest.TempPathFactory) -> Generator[DuckDb | None]:
    """DuckDB, where there is one."""
    if not PEERS_PYTHON.exists():
        yield None
        return
    with DuckDb(tmp_path_factory.mktemp("duckdb")) as process:
        yield process


def _worked(spark: SparkSession, lake: lw.Lake, kind: str) -> lw.Table:
    """A table after all steps, some of them in one transaction and some alone."""
    table = lake.create("t", _COLUMNS, format=kind, partition_by=["p"])
    for group in (_STEPS[:5], _STEPS[5:9], _STEPS[9:12], _STEPS[12:], _WIDER[:2], _WIDER[2:]):
        with lake.transaction(spark=spark) as tx:
            for text in group:
                tx.sql(text)
            seen = exact_rows(as_ours(tx.read("t").toArrow(), table_schema(tx)))
        assert seen == exact_rows(table.to_arrow())
    return table


def table_schema(tx: lw.Transaction) -> pa.Schema:
    """The columns of the table as the transaction leaves it."""
    return next(iter(tx._view.members.values())).change.definition.schema.to_arrow()


def test_a_delta_table_altered_on_spark(
    spark: SparkSession, tmp_path: Path, duckdb: DuckDb | None
) -> None:
    with lw.open(tmp_path / "lake") as lake:
        table = _worked(spark, lake, "delta")
        wider = table.version - 1
        for version in range(1, table.version + 1):
            ours = table.at(version=version).to_arrow()
            found = [_by_spark(spark, table, version)]
            if version < wider:
                # delta-rs 1.6 reads no table with the feature typeWidening.
                found.append(DeltaRs().rows(table.location, version=version))
            if duckdb is not None:
                found.append(duckdb.rows(table.location, version=version))
            for rows in found:
                assert exact_rows(as_ours(rows, ours.schema)) == exact_rows(ours), version


def test_an_iceberg_table_altered_on_spark(
    spark: SparkSession, tmp_path: Path, duckdb: DuckDb | None
) -> None:
    with lw.open(tmp_path / "lake") as lake:
        table = _worked(spark, lake, "iceberg")
        for version in range(1, table.version + 1):
            snapshot = table.at(version=version)
            ours, number = snapshot.to_arrow(), snapshot.snapshot_id
            assert number is not None
            found = [stranger_arrow(lake, "t", number), _by_spark(spark, table, version)]
            if duckdb is not None:
                found.append(duckdb.iceberg_rows(str(table.metadata_location), number))
            for rows in found:
                assert exact_rows(as_ours(rows, ours.schema)) == exact_rows(ours), version


@pytest.mark.always("iceberg")
@pytest.mark.parametrize("make", [altered_in_delta, altered_in_iceberg])
def test_spark_reads_tables_that_were_altered_without_it(
    spark: SparkSession, tmp_path: Path, make: Callable[[lw.Lake, str], lw.Table]
) -> None:
    with lw.open(tmp_path / "lake") as lake:
        table = make(lake, "t")
        for version in range(1, table.version + 1):
            ours = table.at(version=version).to_arrow()
            rows = _by_spark(spark, table, version)
            assert exact_rows(as_ours(rows, ours.schema)) == exact_rows(ours), version


def _by_spark(spark: SparkSession, table: lw.Table, version: int) -> pa.Table:
    """The rows of a version as Spark reads them, by the published files alone."""
    read = spark.read.format(table.format)
    if table.format == "delta":
        return read.option("versionAsOf", version).load(table.location).toArrow()
    number = table.at(version=version).snapshot_id
    return read.option("versionAsOf", str(number)).load(str(table.metadata_location)).toArrow()
