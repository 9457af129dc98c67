"""Spark works on branches of Delta tables, and everybody reads what was published alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

import lakeward as lw
from lakeward.engines.spark.rows import write_difference
from lakeward.formats.delta import branch as branches
from lakeward.formats.delta.changes import Difference
from tests.behaviour.branches.working import begin
from tests.interop.readers import PEERS_PYTHON, DuckDb

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_VECTORS = "'delta.enableDeletionVectors'='true'"
_FEED = "'delta.enableChangeDataFeed'='true'"
_MERGE = (
    "MERGE INTO {t} t USING (SELECT 9 AS id, 'm' AS v, 'z %' AS part UNION ALL"
    " SELECT 200, 'new', 'ü/x=y') s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v"
    " WHEN NOT MATCHED THEN INSERT (id, v, part) VALUES (s.id, s.v, s.part)"
)
_SEVERAL = (
    "UPDATE {t} SET v = 'first' WHERE id = 10",
    "DELETE FROM {t} WHERE id = 10",
    "INSERT INTO {t} (id, v, part) VALUES (300, 'x', NULL), (300, 'x', NULL)",
    "UPDATE {t} SET v = 'again' WHERE id > 20",
    "UPDATE {t} SET part = 'moved' WHERE id = 11",
)
_TRANSACTIONS = (
    ("UPDATE {t} SET v = 'u' WHERE id % 5 = 0",),
    ("DELETE FROM {t} WHERE id IN (6, 7, 8)",),
    (_MERGE,),
    ("OPTIMIZE {t}",),
    _SEVERAL,
    ("DELETE FROM {t} WHERE id = 13", "OPTIMIZE {t}"),
)


@pytest.fixture(scope="module")
def duck(tmp_path_factory: pytest.TempPathFactory) -> Generator[DuckDb | None]:
    """DuckDb, where it is installed."""
    if not PEERS_PYTHON.exists():
        yield None
        return
    with DuckDb(tmp_path_factory.mktemp("duck")) as reader:
        yield reader


def _spark_table(spark: SparkSession, place: Path, *properties: str) -> None:
    table = f"delta.`{place}`"
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT, v STRING, part STRING,"
        " g BIGINT GENERATED ALWAYS AS (id * 2)) USING delta PARTITIONED BY (part)"
        f" TBLPROPERTIES ({', '.join(properties)})"
    )
    spark.sql(
        f"INSERT INTO {table} (id, v, part) SELECT id, concat('v', id), CASE id % 3"
        " WHEN 0 THEN 'a b%c' WHEN 1 THEN 'ü/x=y' ELSE NULL END FROM range(30)"
    )
    spark.sql(f"DELETE FROM {table} WHERE id IN (3, 4)")


def _run(spark: SparkSession, lake: lw.Lake, statements: Sequence[str]) -> int:
    tx, branch = begin(lake, "t")
    for statement in statements:
        spark.sql(statement.format(t=f"delta.`{branch.location}`")).collect()

    def tell(task: Difference) -> None:
        write_difference(spark, task.before, task.after, task.target, task.columns)

    net = branch.net(differ=tell)
    branch.fill(tx._view.members[branch.head.name].change, net)
    version = tx.commit().versions["t"]
    branch.tidy(net)
    return version


def _spark_rows(spark: SparkSession, place: str, version: int) -> Counter[tuple[Any, ...]]:
    found = spark.read.format("delta").option("versionAsOf", version).load(place)
    return Counter(tuple(r) for r in found.select("id", "v", "part", "g").collect())


def _rust_rows(place: str, version: int) -> Counter[tuple[Any, ...]]:
    query = QueryBuilder().register("t", DeltaTable(place, version=version))
    found = pa.table(query.execute("SELECT id, v, part, g FROM t"))
    return Counter(tuple(r.values()) for r in found.to_pylist())


def _feed(spark: SparkSession, place: str, version: int) -> Counter[tuple[Any, ...]]:
    options: dict[str, str | int] = {
        "readChangeFeed": "true",
        "startingVersion": version,
        "endingVersion": version,
    }
    told = spark.read.format("delta").options(**options).load(place).collect()
    out: Counter[tuple[Any, ...]] = Counter()
    for row in told:
        assert row["_commit_version"] == version
        sign = 1 if row["_change_type"] in ("insert", "update_postimage") else -1
        out[row["id"], row["v"], row["part"], row["g"]] += sign
    return Counter({row: count for row, count in out.items() if count})


def _agree(
    spark: SparkSession, duck: DuckDb | None, lake: lw.Lake, version: int, *, feed: bool = True
) -> None:
    """Spark without us, delta-rs and DuckDb see the same rows; the feed is their difference."""
    place = lake.table("t").location
    now = _spark_rows(spark, place, version)
    assert _rust_rows(place, version) == now
    if duck is not None:
        rows = duck.rows(place).select(["id", "v", "part", "g"]).to_pylist()
        assert Counter(tuple(r.values()) for r in rows) == now
    if feed:
        difference = now.copy()
        difference.subtract(_rust_rows(place, version - 1))
        expected = {row: count for row, count in difference.items() if count}
        assert _feed(spark, place, version) == expected
    assert lake.doctor().findings == ()


@pytest.mark.full
def test_what_spark_did_on_a_branch_is_one_commit_for_everybody(
    spark: SparkSession, duck: DuckDb | None, tmp_path: Path
) -> None:
    place = tmp_path / "wä re house"
    _spark_table(spark, place, _VECTORS, _FEED)
    with lw.open(tmp_path / "lake") as lake:
        version = lake.adopt("t", str(place)).version
        for statements in _TRANSACTIONS:
            assert _run(spark, lake, statements) == version + 1
            version += 1
            _agree(spark, duck, lake, version)


@pytest.mark.full
def test_mapped_columns_keep_their_names_inside_files(spark: SparkSession, tmp_path: Path) -> None:
    _spark_table(spark, tmp_path / "t", _VECTORS, _FEED, "'delta.columnMapping.mode'='name'")
    with lw.open(tmp_path / "lake") as lake:
        lake.adopt("t", str(tmp_path / "t"))

        for statements in ((_MERGE,), _SEVERAL):
            version = _run(spark, lake, statements)

            # DuckDB loses the values of mapped partition columns in any table.
            _agree(spark, None, lake, version)


@pytest.mark.full
def test_rows_are_rewritten_where_a_table_has_no_deletion_vectors(
    spark: SparkSession, duck: DuckDb | None, tmp_path: Path
) -> None:
    _spark_table(spark, tmp_path / "t", _FEED, "'delta.enableDeletionVectors'='false'")
    with lw.open(tmp_path / "lake") as lake:
        lake.adopt("t", str(tmp_path / "t"))

        version = _run(spark, lake, [_MERGE, *_TRANSACTIONS[0]])

        _agree(spark, duck, lake, version)


@pytest.mark.full
def test_a_branch_that_begins_with_a_checkpoint_is_read_and_written(
    spark: SparkSession, duck: DuckDb | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(branches, "IN_ONE_COMMIT", 2)
    _spark_table(spark, tmp_path / "t", _VECTORS, _FEED)
    with lw.open(tmp_path / "lake") as lake:
        lake.adopt("t", str(tmp_path / "t"))

        version = _run(spark, lake, _SEVERAL)

        _agree(spark, duck, lake, version)


def test_a_table_that_the_lake_made_is_written_by_spark(
    spark: SparkSession, duck: DuckDb | None, tmp_path: Path
) -> None:
    with lw.open(tmp_path / "lake") as lake:
        columns = {"id": "int64", "v": "string", "part": "string", "g": "int64"}
        lake.create("t", columns, partition_by=["part"], constraints={"small": "id < 1000"})
        with lake.transaction() as tx:
            rows = [{"id": n, "v": "x", "part": f"p {n % 3}", "g": n * 2} for n in range(9)]
            tx.append("t", rows)

        version = _run(spark, lake, [_MERGE])

        _agree(spark, duck, lake, version, feed=False)
        with pytest.raises(Exception, match="small"):
            _run(spark, lake, ["INSERT INTO {t} VALUES (5000, 'x', 'y', 1)"])


def test_maps_are_compared_by_their_entries(spark: SparkSession, tmp_path: Path) -> None:
    table = f"delta.`{tmp_path / 't'}`"
    columns = "(id BIGINT, m MAP<STRING, BIGINT>)"
    spark.sql(f"CREATE TABLE {table} {columns} USING delta TBLPROPERTIES ({_FEED})")
    spark.sql(f"INSERT INTO {table} VALUES (1, map('a', 1, 'b', 2)), (2, map('c', 3))")
    with lw.open(tmp_path / "lake") as lake:
        lake.adopt("t", str(tmp_path / "t"))

        version = _run(
            spark,
            lake,
            ["UPDATE {t} SET m = map('z', 9) WHERE id = 2", "INSERT INTO {t} VALUES (3, NULL)"],
        )

        options: dict[str, str | int] = {"readChangeFeed": "true", "startingVersion": version}
        told = spark.read.format("delta").options(**options).load(lake.table("t").location)
        found = {(r["_change_type"], r["id"], str(r["m"])) for r in told.collect()}
        assert found == {
            ("delete", 2, "{'c': 3}"),
            ("insert", 2, "{'z': 9}"),
            ("insert", 3, "None"),
        }


@pytest.mark.parametrize("files", [0, 3])
def test_what_a_small_branch_says_of_its_state_is_what_spark_finds_in_its_log(
    spark: SparkSession, tmp_path: Path, files: int
) -> None:
    with lw.open(tmp_path / "lake") as lake:
        lake.create("t", {"id": "int64", "v": "string"})
        for number in range(files):
            with lake.transaction() as tx:
                tx.append("t", [{"id": number, "v": f"v{number}"}])
        tx, branch = begin(lake, "t")
        jvm: Any = spark._jvm
        log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(
            spark._jsparkSession, branch.location
        )
        found = log.unsafeVolatileSnapshot()

        assert found.checksumOpt().isDefined()
        assert found.validateChecksum(
            getattr(jvm.scala.collection.immutable, "Map$").__getattr__("MODULE$").empty()
        )
        assert found.allFiles().count() == files
        assert found.numOfFiles() == files
        tx.rollback()
