"""Delta tables with deletion vectors are read into Iceberg tables, in every way there is.

Delta itself fails where a statement that writes another format reads such a table.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

import lakeward as lw
from tests.support.invariants import check_lake

Rows = dict[int, str]
Way = Callable[[Any, str], object]
COLUMNS = {"id": "int64", "v": "string"}
VECTORS = {"delta.enableDeletionVectors": "true"}
OLD = dict.fromkeys(range(3), "old")
"""The rows of every Iceberg table."""
QUERY = "SELECT sales.d.id, d.v FROM sales.d WHERE sales.d.id >= 0"


class Source(NamedTuple):
    """A transaction, and the rows of sales.d that it sees."""

    tx: Any
    live: Rows


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Generator[lw.Lake]:
    with lw.open(tmp_path_factory.mktemp("vectors") / "lake") as opened:
        opened.create("sales.d", COLUMNS, properties=VECTORS)
        with opened.transaction() as tx:
            tx.append("sales.d", [{"id": n, "v": f"v{n}"} for n in range(5)])
        for way in WAYS:
            opened.create(f"gold.to_{way}", COLUMNS, format="iceberg")
        with opened.transaction() as tx:
            for way in WAYS:
                tx.append(f"gold.to_{way}", [{"id": n, "v": v} for n, v in OLD.items()])
        yield opened


@pytest.fixture(scope="module")
def sources(spark: SparkSession, lake: lw.Lake) -> Generator[list[Source]]:
    """A table whose vectors an earlier commit made, and one that the transaction itself marked."""
    live = {n: f"v{n}" for n in range(5) if n != 1}
    with lake.transaction(spark=spark) as tx:
        tx.sql("DELETE FROM sales.d WHERE id = 1")
    assert list(Path(lake.table("sales.d").location).rglob("deletion_vector*.bin"))
    before, now = lake.transaction(spark=spark), lake.transaction(spark=spark)
    now.sql("DELETE FROM sales.d WHERE id = 2")
    yield [Source(before, live), Source(now, {n: v for n, v in live.items() if n != 2})]
    before.rollback()
    now.rollback()


def sql(text: str) -> Way:
    return lambda tx, name: tx.sql(text.format(i=name))


def viewed(tx: Any, name: str) -> None:
    tx.sql("CREATE TEMPORARY VIEW some AS SELECT * FROM sales.d")
    tx.sql(f"INSERT INTO {name} SELECT some.id, v FROM some")


def written(tx: Any, name: str) -> None:
    tx.sql(f"WITH x AS ({QUERY}) SELECT x.* FROM x").writeTo(tx.name(name)).append()


WAYS: dict[str, tuple[Way, Callable[[Rows], Iterable[tuple[int, str]]]]] = {
    "insert": (
        sql(f"INSERT INTO {{i}} {QUERY} AND id > 2"),
        lambda d: [*OLD.items(), *above(d, 2).items()],
    ),
    "insert_table": (sql("INSERT OVERWRITE {i} TABLE sales.d"), lambda d: d.items()),
    "overwrite": (
        sql("INSERT OVERWRITE {i} SELECT x.* FROM sales.d TABLESAMPLE (100 PERCENT) AS x"),
        lambda d: d.items(),
    ),
    "create": (sql(f"CREATE TABLE {{i}}_made USING iceberg AS {QUERY}"), lambda d: d.items()),
    "merge": (
        sql(
            "MERGE INTO {i} USING sales.d ON {i}.id = sales.d.id"
            " WHEN MATCHED THEN UPDATE SET v = sales.d.v"
            " WHEN NOT MATCHED THEN INSERT (id, v) VALUES (sales.d.id, d.v)"
        ),
        lambda d: (OLD | d).items(),
    ),
    "merge_query": (
        sql(
            "MERGE INTO {i} t USING (SELECT * FROM sales.d WHERE id > 0) s ON t.id = s.id"
            " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        ),
        lambda d: (OLD | above(d, 0)).items(),
    ),
    "update": (
        sql("UPDATE {i} SET v = 'new' WHERE id IN (SELECT sales.d.id FROM sales.d)"),
        lambda d: (OLD | dict.fromkeys(OLD.keys() & d, "new")).items(),
    ),
    "delete": (
        sql("DELETE FROM {i} WHERE EXISTS (SELECT 1 FROM sales.d WHERE sales.d.id = {i}.id)"),
        lambda d: [(n, v) for n, v in OLD.items() if n not in d],
    ),
    "view": (viewed, lambda d: [*OLD.items(), *d.items()]),
    "append": (
        lambda tx, i: tx.append(i, tx.read("sales.d", where="id > 2")),
        lambda d: [*OLD.items(), *above(d, 2).items()],
    ),
    "replace": (lambda tx, i: tx.overwrite(i, tx.read("sales.d")), lambda d: d.items()),
    "merge_frame": (
        lambda tx, i: tx.merge(i, tx.read("sales.d", where="id > 0"), on="id"),
        lambda d: (OLD | above(d, 0)).items(),
    ),
    "writer": (written, lambda d: [*OLD.items(), *d.items()]),
}


def above(rows: Rows, key: int) -> Rows:
    return {n: v for n, v in rows.items() if n > key}


@pytest.mark.always("[insert]", "[update]", "[merge_frame]", "[writer]")
@pytest.mark.parametrize("way", WAYS)
def test_rows_go_into_an_iceberg_table(sources: list[Source], way: str) -> None:
    do, expected = WAYS[way]

    for tx, live in sources:
        do(tx, f"gold.to_{way}")
        name = f"gold.to_{way}_made" if way == "create" else f"gold.to_{way}"
        found = sorted((r.id, r.v) for r in tx.read(name).collect())
        assert found == sorted(expected(live))


def test_conditions_on_a_table_with_vectors_still_choose_files_and_columns(
    sources: list[Source],
) -> None:
    tx = sources[1].tx
    frame = tx.sql("SELECT id FROM sales.d WHERE sales.d.id = 100")
    scan = frame._jdf.queryExecution().executedPlan().collectLeaves().apply(0)

    assert frame.collect() == []
    assert "EqualTo(id,100)" in scan.toString()
    assert "v:string" not in scan.toString()
    assert scan.metrics().apply("numFiles").value() == 0


def test_delta_is_merged_and_read_into_iceberg_in_one_transaction(
    spark: SparkSession, tmp_path: Path
) -> None:
    with lw.open(tmp_path / "lake") as lake:
        lake.create("d", COLUMNS, properties=VECTORS)
        lake.create("i", COLUMNS, format="iceberg")
        with lake.transaction() as tx:
            tx.append("d", [{"id": n, "v": f"v{n}"} for n in range(5)])

        with lake.transaction(spark=spark) as tx:
            tx.sql(
                "MERGE INTO d USING (SELECT id FROM range(3, 7)) s ON d.id = s.id"
                " WHEN MATCHED THEN UPDATE SET v = 'merged'"
                " WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 'new')"
            )
            tx.sql("DELETE FROM d WHERE id = 0")
            tx.sql("INSERT INTO i SELECT * FROM d")

        expected = [(1, "v1"), (2, "v2"), (3, "merged"), (4, "merged"), (5, "new"), (6, "new")]
        for name in ("d", "i"):
            found = lake.table(name).to_arrow().to_pylist()
            assert sorted((r["id"], r["v"]) for r in found) == expected
        check_lake(lake, ["d", "i"])
