"""Unique keys, foreign keys and the quarantine in transactions on Spark, for both formats."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lakeward as lw
from lakeward.errors import ConstraintViolation
from tests.behaviour.lakes import append, data_files, ids

BOTH = pytest.mark.parametrize("table_format", ["delta", "iceberg"])


@pytest.fixture
def lake(tmp_path: Path) -> Generator[lw.Lake]:
    with lw.open(tmp_path / "lake") as opened:
        yield opened


@BOTH
def test_statements_and_frames_keep_unique_and_foreign_keys(
    spark: SparkSession, lake: lw.Lake, table_format: str
) -> None:
    key = {"key": lw.Unique("id")}
    lake.create("customers", {"id": "int64"}, format=table_format, constraints=key)
    lake.create(
        "orders",
        {"id": "int64", "customer": "int64"},
        format=table_format,
        constraints={
            **key,
            "customer": lw.ForeignKey("customer", references="customers", key="id"),
        },
    )
    append(lake, "customers", {"id": [1, 2, 3]})
    append(lake, "orders", {"id": [10, 11], "customer": [1, 2]})
    frame = spark.createDataFrame([(11, 1)], "id bigint, customer bigint")
    refused = {
        "INSERT INTO orders VALUES (10, 1)": "key",
        "INSERT INTO orders VALUES (12, 9)": "customer",
        "DELETE FROM customers WHERE id = 1": "customer",
    }

    for statement, constraint in refused.items():
        tx = lake.transaction(spark=spark)
        tx.sql(statement)
        with pytest.raises(ConstraintViolation) as caught:
            tx.commit()
        assert caught.value.constraint == constraint, statement
    tx = lake.transaction(spark=spark)
    tx.append("orders", frame)
    with pytest.raises(ConstraintViolation):
        tx.commit()
    with lake.transaction(spark=spark) as tx:
        tx.sql("DELETE FROM orders WHERE id = 11")
        tx.sql("DELETE FROM customers WHERE id IN (2, 3)")
        tx.append("orders", frame)
        tx.sql("UPDATE orders SET id = id + 1")

    assert ids(lake, "orders") == [11, 12]
    assert ids(lake, "customers") == [1]
    assert [v.constraint for v in lake.violations()] == ["key", *list(refused.values())[::-1]]


@BOTH
def test_new_rows_are_quarantined_and_changed_ones_are_refused(
    spark: SparkSession, lake: lw.Lake, table_format: str
) -> None:
    key = lw.Unique("id", on_violation="quarantine")
    lake.create("t", {"id": "int64"}, format=table_format, constraints={"key": key})
    append(lake, "t", {"id": [1, 2]})

    with lake.transaction(spark=spark) as tx:
        tx.sql("INSERT INTO t VALUES (2), (3), (3), (4)")
    tx = lake.transaction(spark=spark)
    tx.sql("UPDATE t SET id = 1 WHERE id = 4")
    with pytest.raises(ConstraintViolation):
        tx.commit()

    assert ids(lake, "t") == [1, 2, 3, 4]
    assert ids(lake, "t__quarantine") == [2, 3]
    assert data_files(lake, "t") == {f.path for f in lake.table("t").files()}
