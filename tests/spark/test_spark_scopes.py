"""Names in statements mean what they mean to Spark: WITH hides a table only where it is visible.

Plain Spark is asked the same, over tables of the same names. Spark's own catalog has other tables
of these names, so that a name that is not taken for the lake's gives other rows.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Generator, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakeward as lw
from tests.support.scoped_queries import NAMES, QUALIFIED, ScopedQueries
from tests.support.sizes import sizes

FORMATS = {"a": "delta", "b": "iceberg", "c": "delta", "s.a": "iceberg", "s.b": "delta"}
ROWS = {
    name: [(n + k, 10 * (k + 1) + n) for n in range(3)]
    for k, name in enumerate((*NAMES, *QUALIFIED))
}
COLUMNS = {"id": "int64", "v": "int64"}


@pytest.fixture
def lake(tmp_path: Path) -> Generator[lw.Lake]:
    with lw.open(tmp_path / "lake") as opened:
        for name, table_format in FORMATS.items():
            opened.create(name, COLUMNS, format=table_format)
        opened.create("out", COLUMNS)
        with opened.transaction() as tx:
            for name, rows in ROWS.items():
                tx.append(name, [{"id": i, "v": v} for i, v in rows])
        yield opened


@pytest.fixture
def plain(spark: SparkSession, lake: lw.Lake) -> Generator[SparkSession]:
    """A session with tables of the same names; those of the default database have other rows."""
    session = spark.newSession()
    session.conf.set("spark.sql.defaultCatalog", "spark_catalog")
    session.sql("CREATE DATABASE plain")
    session.sql("CREATE DATABASE s")
    for name, rows in ROWS.items():
        place = name if "." in name else f"plain.{name}"
        values = ", ".join(f"(CAST({i} AS BIGINT), CAST({v} AS BIGINT))" for i, v in rows)
        session.sql(f"CREATE VIEW {place} AS SELECT * FROM VALUES {values} AS t(id, v)")
    for name in NAMES:
        session.sql(f"CREATE VIEW default.{name} AS SELECT -1L AS id, -1L AS v")
    session.sql("USE plain")
    yield session
    for name in NAMES:
        session.sql(f"DROP VIEW default.{name}")
    session.sql("DROP DATABASE plain CASCADE")
    session.sql("DROP DATABASE s CASCADE")


def counted(rows: Any) -> Counter[tuple[int, int]]:
    return Counter((r["id"], r["v"]) for r in rows)


@sizes("count", short=6, full=500)
def test_random_queries_with_clashing_names_give_what_plain_spark_gives(
    spark: SparkSession, lake: lw.Lake, plain: SparkSession, count: int
) -> None:
    with lake.transaction(spark=spark) as tx:
        for text in islice(clashing(), count):
            expected = counted(plain.sql(text).collect())
            assert counted(tx.sql(text).collect()) == expected, text


def clashing() -> Iterator[str]:
    """Queries in which a name means a table in one place and an entry of WITH in another."""
    for seed in itertools.count():
        queries = ScopedQueries(seed)
        text = queries.query(depth=3)
        if queries.clashes:
            yield text


STATEMENTS = {
    "INSERT INTO out WITH a AS (SELECT id, v FROM a) SELECT * FROM a": ROWS["a"],
    "WITH out AS (SELECT * FROM b) INSERT INTO out SELECT * FROM out": ROWS["b"],
    "INSERT INTO out (WITH a AS (SELECT * FROM b) SELECT * FROM a) UNION ALL SELECT * FROM a": [
        *ROWS["b"],
        *ROWS["a"],
    ],
    "MERGE INTO out AS a USING (WITH b AS (SELECT * FROM a) SELECT * FROM b) AS b"
    " ON a.id = b.id WHEN NOT MATCHED THEN INSERT *": ROWS["a"],
}


@pytest.mark.usefixtures("plain")
def test_what_is_written_comes_from_the_tables_that_spark_would_read(
    spark: SparkSession, lake: lw.Lake
) -> None:
    for text, expected in STATEMENTS.items():
        with lake.transaction(spark=spark) as tx:
            tx.sql("DELETE FROM out")
            tx.sql(text)

        assert counted(lake.table("out").to_arrow().to_pylist()) == Counter(expected), text


def test_an_entry_of_with_hides_a_temporary_view_and_a_view_hides_a_table(
    spark: SparkSession, lake: lw.Lake
) -> None:
    spark.range(70, 71).selectExpr("id", "id AS v").createOrReplaceTempView("a")
    try:
        with lake.transaction(spark=spark) as tx:
            hidden = tx.sql("WITH a AS (SELECT id, v + 1 AS v FROM a) SELECT * FROM a").collect()
            branch = tx.sql(
                "(WITH a AS (SELECT * FROM b) SELECT * FROM a) UNION ALL SELECT * FROM a"
            ).collect()
    finally:
        spark.catalog.dropTempView("a")

    assert counted(hidden) == {(70, 71): 1}
    assert counted(branch) == Counter([*ROWS["b"], (70, 70)])
