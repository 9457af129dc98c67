"""Pipelines on Spark: one transaction a run, every input once."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import lakeward as lw
from lakeward.errors import ConstraintViolation, ExpectationFailed, InvalidInput, SchemaMismatch
from lakeward.pipeline import Pipeline, landing, new, whole

NAMES = ("id", "amount", "at")
ROW = "id int64 not null, amount int64, at int64"


@pytest.fixture
def lake(tmp_path: Path) -> Generator[lw.Lake]:
    with lw.open(tmp_path / "lake") as opened:
        yield opened


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "landing" / "sales").mkdir(parents=True)
    return tmp_path / "landing"


def deliver(place: Path, name: str, rows: list[tuple[int, int | None, int]]) -> None:
    columns = list(zip(*rows, strict=True))
    table = pa.table({n: pa.array(c, pa.int64()) for n, c in zip(NAMES, columns, strict=True)})
    pq.write_table(table, place / "sales" / f"{name}.parquet")


def shop() -> Pipeline:
    pipeline = Pipeline("shop")

    @pipeline.step("bronze.sales", schema=ROW)
    def bronze(batch: Any = landing("sales")) -> Any:
        return batch

    @pipeline.step(
        "silver.sales",
        schema=ROW,
        mode="merge",
        key="id",
        latest="at",
        drop={"has an amount": "amount IS NOT NULL"},
        expect={"is no refund": "amount >= 0"},
        constraints={"sane": "amount < 1000"},
    )
    def silver(rows: Any = new("bronze.sales")) -> Any:
        return rows

    @pipeline.step(
        "gold.total",
        schema="parity int64 not null, amount int64",
        format="iceberg",
        mode="merge",
        key="parity",
    )
    def gold(changed: Any = new("silver.sales"), sales: Any = whole("silver.sales")) -> Any:
        return (
            sales.selectExpr("id % 2 AS parity", "amount")
            .join(changed.selectExpr("id % 2 AS parity").distinct(), "parity", "left_semi")
            .groupBy("parity")
            .agg({"amount": "sum"})
            .toDF("parity", "amount")
        )

    return pipeline


def rows(lake: lw.Lake, name: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(r.values()) for r in lake.table(name).to_arrow().to_pylist())


def versions(lake: lw.Lake) -> dict[str, int]:
    return {t.name: t.version for t in lake.tables()}


def test_a_run_takes_everything_new_through_all_steps_in_one_transaction(
    spark: SparkSession, lake: lw.Lake, place: Path
) -> None:
    deliver(place, "a", [(1, 10, 1), (2, 20, 1), (2, 21, 2), (3, None, 1)])

    result = shop().run(lake, spark, landing=str(place))

    assert result.versions == {"bronze.sales": 1, "silver.sales": 1, "gold.total": 1}
    assert rows(lake, "bronze.sales") == [(1, 10, 1), (2, 20, 1), (2, 21, 2), (3, None, 1)]
    assert rows(lake, "silver.sales") == [(1, 10, 1), (2, 21, 2)]
    assert rows(lake, "gold.total") == [(0, 21), (1, 10)]
    assert {t.history(limit=1)[0].transaction_id for t in lake.tables()} == {result.run_id}
    assert [(s.table, s.rows, dict(s.dropped)) for s in result.steps] == [
        ("bronze.sales", 4, {}),
        ("silver.sales", 2, {"has an amount": 1}),
        ("gold.total", 2, {}),
    ]


def test_each_file_is_taken_in_once_and_a_run_with_nothing_new_commits_nothing(
    spark: SparkSession, lake: lw.Lake, place: Path
) -> None:
    deliver(place, "a", [(1, 10, 1), (2, 20, 1)])
    shop().run(lake, spark, landing=str(place))
    before = versions(lake)

    idle = shop().run(lake, spark, landing=str(place))
    assert not idle.committed
    assert versions(lake) == before

    deliver(place, "b", [(1, 99, 0), (2, 25, 2), (4, 1, 1)])
    again = shop().run(lake, spark, landing=str(place))
    assert again.committed
    assert rows(lake, "bronze.sales") == [(1, 10, 1), (1, 99, 0), (2, 20, 1), (2, 25, 2), (4, 1, 1)]
    assert rows(lake, "silver.sales") == [(1, 10, 1), (2, 25, 2), (4, 1, 1)]
    assert rows(lake, "gold.total") == [(0, 26), (1, 10)]


@pytest.mark.parametrize(
    ("bad", "error"), [((5, -1, 1), ExpectationFailed), ((5, 5000, 1), ConstraintViolation)]
)
@pytest.mark.always("ConstraintViolation")
def test_rows_that_are_refused_change_nothing_until_they_are_mended(
    spark: SparkSession,
    lake: lw.Lake,
    place: Path,
    bad: tuple[int, int, int],
    error: type[Exception],
) -> None:
    deliver(place, "a", [(1, 10, 1)])
    shop().run(lake, spark, landing=str(place))
    before = versions(lake)

    deliver(place, "b", [(2, 20, 1), bad])
    with pytest.raises(error) as caught:
        shop().run(lake, spark, landing=str(place))
    assert caught.value.facts["count"] == 1  # type: ignore[attr-defined]
    assert versions(lake) == before
    recorded = [(v.action, v.count, v.pipeline) for v in lake.violations()]
    assert recorded == ([("fail", 1, "shop")] if error is ConstraintViolation else [])

    deliver(place, "b", [(2, 20, 1), (5, 5, 1)])
    shop().run(lake, spark, landing=str(place))
    assert rows(lake, "silver.sales") == [(1, 10, 1), (2, 20, 1), (5, 5, 1)]
    assert rows(lake, "bronze.sales") == [(1, 10, 1), (2, 20, 1), (5, 5, 1)]


def test_a_run_leaves_a_bundle_in_the_log_and_on_disk(
    spark: SparkSession, lake: lw.Lake, place: Path
) -> None:
    deliver(place, "a", [(1, 10, 1), (3, None, 1)])
    result = shop().run(lake, spark, landing=str(place))

    bundle = orjson.loads((Path(lake.warehouse) / str(result.bundle_path)).read_bytes())
    assert bundle == result.bundle
    (taken,) = bundle["inputs"][:1]
    assert taken["path"] == str(place / "sales" / "a.parquet")
    assert taken["checksum"].startswith("sha256:")
    assert bundle["versions_in"] == {"bronze.sales": 0, "gold.total": 0, "silver.sales": 0}
    assert bundle["versions_out"] == {"bronze.sales": 1, "gold.total": 1, "silver.sales": 1}
    assert bundle["quality"] == {"rows": 4, "dropped": 1, "warned": 0}
    assert bundle["engines"]["spark"] == spark.version
    assert bundle["tables"]["gold.total"]["format"] == "iceberg"
    assert bundle["tables"]["silver.sales"]["protocol"]["minWriterVersion"] == 7


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_rows_that_others_bring_into_a_table_are_new_once(
    spark: SparkSession, lake: lw.Lake, table_format: str
) -> None:
    lake.create("theirs", ROW, format=table_format)
    pipeline = Pipeline("copy")

    @pipeline.step("mine", schema=ROW)
    def mine(added: Any = new("theirs")) -> Any:
        return added

    def bring(*ids: int) -> None:
        with lake.transaction() as tx:
            tx.append("theirs", [{"id": i, "amount": i, "at": 1} for i in ids])

    assert not pipeline.run(lake, spark).committed
    bring(1, 2)
    pipeline.run(lake, spark)
    assert rows(lake, "mine") == [(1, 1, 1), (2, 2, 1)]
    assert not pipeline.run(lake, spark).committed
    bring(3)
    bring(4)
    pipeline.run(lake, spark)
    assert rows(lake, "mine") == [(i, i, 1) for i in (1, 2, 3, 4)]


def test_new_files_are_told_from_others_of_the_same_name_and_found_by_odd_names(
    spark: SparkSession, lake: lw.Lake
) -> None:
    """Other programs give the file of every partition one name, and use spaces and signs."""
    table = lake.create("theirs", "id int64, p string", partition_by=["p"])
    pipeline = Pipeline("copy")

    @pipeline.step("mine", schema="id int64, p string")
    def mine(added: Any = new("theirs")) -> Any:
        return added

    found = []
    odd = ["p=1/a.parquet", "p=2/a.parquet", "p=a b%25+ü/a b%20+&=#ü.parquet", "b/p=1/a.parquet"]
    for number, path in enumerate(odd):
        target = Path(table.location) / path
        target.parent.mkdir(parents=True)
        pq.write_table(pa.table({"id": [number]}), target)
        with lake.transaction() as tx:
            tx.add_files("theirs", [path])
        pipeline.run(lake, spark)
        found.append([r["id"] for r in lake.table("mine").to_arrow().sort_by("id").to_pylist()])
    assert found == [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3]]
    assert lake.table("mine").to_arrow().sort_by("id")["p"].to_pylist() == ["1", "2", "a b%+ü", "1"]


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_names_of_landing_files_are_no_patterns(
    spark: SparkSession, lake: lw.Lake, place: Path, kind: str
) -> None:
    """Such a name matches other files, so that their rows would be read twice."""
    pipeline = Pipeline("odd names")
    declared = None if kind == "parquet" else "id BIGINT"

    @pipeline.step("odd", schema="id int64")
    def odd(batch: Any = landing("sales", format=kind, schema=declared)) -> Any:
        return batch

    names = ["a1", "a[1]", "a*", "a?", "{a1,b}", "a\\1", "b c%20#"]
    for number, name in enumerate(names):
        path = place / "sales" / f"{name}.{kind}"
        if kind == "parquet":
            more = {"other": [0]} if number % 2 else {}
            pq.write_table(pa.table({"id": [number], **more}), path)
        else:
            path.write_text(f"id\n{number}\n" if kind == "csv" else f'{{"id": {number}}}\n')
    pipeline.run(lake, spark, landing=str(place))
    assert rows(lake, "odd") == [(n,) for n in range(len(names))]


def test_a_step_may_delete_by_key(spark: SparkSession, lake: lw.Lake, place: Path) -> None:
    pipeline = Pipeline("deleting")

    @pipeline.step("kept", schema=ROW, mode="merge", key="id", latest="at", delete="amount IS NULL")
    def kept(batch: Any = landing("sales")) -> Any:
        return batch

    deliver(place, "a", [(1, 10, 1), (2, 20, 1), (3, None, 1)])
    pipeline.run(lake, spark, landing=str(place))
    assert rows(lake, "kept") == [(1, 10, 1), (2, 20, 1)]
    deliver(place, "b", [(1, None, 2), (2, None, 0)])
    pipeline.run(lake, spark, landing=str(place))
    assert rows(lake, "kept") == [(2, 20, 1)]


def test_steps_add_the_columns_that_their_rows_bring(
    spark: SparkSession, lake: lw.Lake, place: Path
) -> None:
    extra = ["amount * 2 AS twice"]

    def pipeline(columns: list[str], mode: str | None) -> Pipeline:
        made = Pipeline("growing")

        @made.step("bronze.sales", schema=ROW, schema_mode=mode)
        def bronze(batch: Any = landing("sales")) -> Any:
            return batch.selectExpr("*", *columns)

        @made.step("silver.sales", schema=ROW, mode="merge", key="id", schema_mode=mode)
        def silver(rows: Any = new("bronze.sales")) -> Any:
            return rows

        return made

    deliver(place, "a", [(1, 10, 1)])
    pipeline([], None).run(lake, spark, landing=str(place))
    deliver(place, "b", [(1, 11, 2), (2, 20, 1)])
    pipeline(extra, "merge").run(lake, spark, landing=str(place))
    deliver(place, "c", [(3, 30, 1)])
    result = pipeline(extra, "merge").run(lake, spark, landing=str(place))

    assert not result.notices
    assert rows(lake, "silver.sales") == [(1, 11, 2, 22), (2, 20, 1, 40), (3, 30, 1, 60)]
    assert [r[3] for r in rows(lake, "bronze.sales")] == [None, 22, 40, 60]
    with pytest.raises(SchemaMismatch, match="twice"):
        pipeline(extra, None).run(lake, spark, landing=str(place))
    with pytest.raises(InvalidInput, match="overwrite"):
        pipeline([], "overwrite")


def test_a_run_of_an_id_that_was_committed_commits_nothing_again(
    spark: SparkSession, lake: lw.Lake, place: Path
) -> None:
    deliver(place, "a", [(1, 10, 1)])
    first = shop().run(lake, spark, landing=str(place), run_id="job-7")
    assert first.run_id == "job-7"
    deliver(place, "b", [(2, 20, 1)])

    again = shop().run(lake, spark, landing=str(place), run_id="job-7")

    assert (again.versions, again.run_id) == (first.versions, "job-7")
    assert [(s.table, s.rows) for s in again.steps] == [(s.table, s.rows) for s in first.steps]
    assert rows(lake, "bronze.sales") == [(1, 10, 1)]
    assert shop().committed(lake, "job-8") is None
    lake.create("other", {"id": "int64"})
    with lake.transaction(transaction_id="job-9") as tx:
        tx.append("other", [{"id": 1}])
    with pytest.raises(InvalidInput, match="was no run of pipeline"):
        shop().run(lake, spark, landing=str(place), run_id="job-9")
    assert (
        shop().run(lake, spark, landing=str(place), run_id="job-10").versions["bronze.sales"] == 2
    )
