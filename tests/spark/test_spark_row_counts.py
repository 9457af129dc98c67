"""`history` and `diff` count the rows that a statement of Spark changed, not those it moved."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lakeward as lw

MERGE = """MERGE INTO s.t USING (SELECT id + 90 AS id, 'm' AS v FROM range(20)) x ON t.id = x.id
    WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"""

INSERT_ONLY = MERGE.replace("WHEN MATCHED THEN UPDATE SET * ", "")


@pytest.mark.parametrize(
    ("table_format", "statement", "changed"),
    [
        ("delta", "UPDATE s.t SET v = 'b' WHERE id < 10", (0, 10, 0)),
        ("delta", "DELETE FROM s.t WHERE id >= 95", (0, 0, 5)),
        ("delta", MERGE, (10, 10, 0)),
        ("iceberg", "DELETE FROM s.t WHERE id >= 95", (0, 0, 5)),
        ("iceberg", "INSERT INTO s.t VALUES (1, 'a')", (1, 0, 0)),
        ("iceberg", MERGE, (10, 10, 0)),
        ("iceberg", INSERT_ONLY, (10, 0, 0)),
        # Neither Spark nor Iceberg counts the rows of an update.
        ("iceberg", "UPDATE s.t SET v = 'b' WHERE id < 10", None),
    ],
)
def test_a_statement_counts_the_rows_that_it_changed(
    tmp_path: Path,
    spark: SparkSession,
    table_format: str,
    statement: str,
    changed: tuple[int, int, int] | None,
) -> None:
    with lw.open(tmp_path / "lake") as lake:
        table = lake.create("s.t", {"id": "int64", "v": "string"}, format=table_format)
        table.append([{"id": i, "v": "a"} for i in range(100)])
        with lake.transaction(spark=spark) as tx:
            tx.sql(statement)
        assert table.history(limit=1)[0].changed == changed
        assert table.diff(1, 2).changed == changed
