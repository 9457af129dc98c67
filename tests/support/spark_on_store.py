"""Spark on a lake whose tables are on an object store."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa

import lakeward as lw
from tests.support.sparks import CONF

_MERGE: Final = """
    MERGE INTO {name} t USING (SELECT 2L AS id, 'z' AS p UNION ALL SELECT 9L, 'n') s
    ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *
"""
_FORMATS: Final = ("delta", "iceberg")


def check_both_formats(lake: lw.Lake, directory: Path, **settings: str) -> None:
    """Append to a table of each format and merge into it on Spark; read it by Spark and by us."""
    from lakeward.spark import session

    spark = session(
        lake,
        master="local[2]",
        **{
            **CONF,
            **settings,
            "spark.sql.warehouse.dir": str(directory / "warehouse"),
            "spark.local.dir": str(directory / "local"),
        },
    )
    try:
        for name in _FORMATS:
            lake.create(name, "id int64, p string", format=name)
            lake.table(name).append(pa.table({"id": [1, 2], "p": ["a", "b"]}))
        with lake.transaction(spark=spark) as tx:
            for name in _FORMATS:
                tx.sql(f"INSERT INTO {name} VALUES (3, 'c')")
                tx.sql(_MERGE.format(name=name))
        wanted = [(1, "a"), (2, "z"), (3, "c"), (9, "n")]
        for name in _FORMATS:
            rows = spark.sql(f"SELECT id, p FROM {name} ORDER BY id").collect()
            assert [tuple(row) for row in rows] == wanted
            ours = lake.table(name).to_arrow().sort_by("id").to_pylist()
            assert [(row["id"], row["p"]) for row in ours] == wanted
        # Hadoop leaves empty objects that stand for directories.
        assert {found.code for found in lake.doctor().findings} <= {"reclaimable"}
    finally:
        spark.stop()
