"""Policies of patterns in transactions on Spark, for both formats."""

from __future__ import annotations

from pathlib import Path

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
