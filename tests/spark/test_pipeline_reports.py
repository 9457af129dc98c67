"""Nothing is dropped or doubled by a pipeline without an error or a notice in the run's report."""

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
from lakeward.errors import InvalidInput, SchemaMismatch, StepFailed
from lakeward.integrations.opentelemetry import trace
from lakeward.log import runs
from lakeward.pipeline import Pipeline, landing, new, whole
from tests.integrations.test_opentelemetry import Heard, facts, own, parent
from tests.support.inside import context_of

ROW = "id int64 not null, amount int64, at int64"


@pytest.fixture
def lake(tmp_path: Path) -> Generator[lw.Lake]:
    with lw.open(tmp_path / "lake") as opened:
        yield opened


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "landing" / "sales").mkdir(parents=True)
    return tmp_path / "landing"


def deliver(place: Path, name: str, *rows: dict[str, Any], **types: pa.DataType) -> None:
    fields = [(n, types.get(n, pa.int64())) for n in rows[0]]
    table = pa.Table.from_pylist(list(rows), pa.schema(fields))
    pq.write_table(table, place / "sales" / f"{name}.parquet")


def row(id_: int, amount: Any = 1, at: int = 1, **more: Any) -> dict[str, Any]:
    return {"id": id_, "amount": amount, "at": at, **more}


def simple(function: Any = None, *, schema: str = ROW, **options: Any) -> Pipeline:
    """One step from the landing directory to a table."""
    pipeline = Pipeline("simple")

    def taken(batch: Any = landing("sales")) -> Any:
        return batch

    pipeline.step("sales", schema=schema, **options)(function or taken)
    return pipeline


def rows(lake: lw.Lake, name: str = "sales") -> list[tuple[Any, ...]]:
    found = [tuple(r.values()) for r in lake.table(name).to_arrow().to_pylist()]
    return sorted(found, key=repr)


def last_run(lake: lw.Lake) -> dict[str, Any]:
    with context_of(lake).database.read() as session:
        return runs.newest(session, None, 1)[0].bundle


def kinds(result: Any) -> dict[str, int]:
    return {n.kind: n.count for n in result.notices}


# Files.


def test_files_that_are_not_taken_are_named_in_the_report(
    spark: SparkSession, lake: lw.Lake, place: Path
) -> None:
    deliver(place, "a", row(1))
    (place / "sales" / "b.csv").write_text("id\n1\n")
    (place / "sales" / "c.json").write_text("{}")
    result = simple().run(lake, spark, landing=str(place))
    (notice,) = result.notices
    assert (notice.kind, notice.count, list(notice.sample)) == (
        "files_not_taken",
        2,
        ["b.csv", "c.json"],
    )
    assert "b.csv" in notice.message
    assert result.bundle["notices"][0]["sample"] == ["b.csv", "c.json"]
    idle = simple().run(lake, spark, landing=str(place))
    assert (idle.committed, kinds(idle)) == (False, {"files_not_taken": 2})


def test_columns_that_only_some_files_have_are_kept_and_told(
    spark: SparkSession, lake: lw.Lake, place: Path
) -> None:
    deliver(place, "a", row(1))
    deliver(place, "b", row(2, note=7))
    result = simple(schema=f"{ROW}, note int64").run(lake, spark, landing=str(place))
    assert rows(lake) == [(1, 1, 1, None), (2, 1, 1, 7)]
    assert kinds(result) == {"columns_missing": 1}
    assert "note" in result.notices[0].message
    assert list(result.notices[0].sample) == ["a.parquet"]


def test_narrower_numbers_of_a_file_are_taken_as_the_wider_ones_of_another(
    spark: SparkSession, lake: lw.Lake, place: Path
) -> None:
    deliver(place, "a", row(1), amount=pa.int16())
    deliver(place, "b", row(2, 2**40))
    deliver(place, "c", row(3), amount=pa.int32())
    simple().run(lake, spark, landing=str(place))
    assert rows(lake) == [(1, 1, 1), (2, 2**40, 1), (3, 1, 1)]


def test_a_column_of_two_types_is_refused_with_the_files_that_have_them(
    spark: SparkSession, lake: lw.Lake, place: Path
) -> None:
    deliver(place, "a", row(1))
    deliver(place, "b", row(2, "many"), amount=pa.string())
    with pytest.raises(SchemaMismatch) as caught:
        simple().run(lake, spark, landing=str(place))
    for word in ("amount", "a.parquet", "bigint", "b.parquet", "string"):
        assert word in caught.value.what
    assert last_run(lake)["state"] == "failed"


def test_values_that_a_table_would_have_to_cut_are_refused(
    spark: SparkSession, lake: lw.Lake, place: Path
) -> None:
    deliver(place, "a", row(1, 1.5), amount=pa.float64())
    with pytest.raises(SchemaMismatch) as caught:
        simple().run(lake, spark, landing=str(place))
    for word in ("amount", "double", "int64"):
        assert word in caught.value.what


def test_a_file_of_another_type_than_the_landing_schema_is_named(
    spark: SparkSession, lake: lw.Lake, place: Path
) -> None:
    def taken(batch: Any = landing("sales", schema="id BIGINT, amount BIGINT, at BIGINT")) -> Any:
        return batch

    deliver(place, "a", row(1, "x"), amount=pa.string())
    with pytest.raises(SchemaMismatch) as caught:
        simple(taken).run(lake, spark, landing=str(place))
    for word in ("amount", "a.parquet", "string", "bigint"):
        assert word in caught.value.what


def test_columns_outside_the_landing_schema_and_the_table_are_told(
    spark: SparkSession, lake: lw.Lake, place: Path
) -> None:
    def taken(batch: Any = landing("sales", schema="id BIGINT, amount BIGINT, at BIGINT")) -> Any:
        return batch.selectExpr("*", "1 AS extra")

    deliver(place, "a", row(1, note=7))
    result = simple(taken).run(lake, spark, landing=str(place))
    assert {n.kind: list(n.sample) for n in result.notices} == {
        "columns_not_read": ["note"],
        "columns_not_written": ["extra"],
    }


# Keys.


def test_two_rows_of_one_key_without_latest_are_refused(
    spark: SparkSession, lake: lw.Lake, place: Path
) -> None:
    deliver(place, "a", row(1, 10), row(1, 11), row(2), row(3))
    with pytest.raises(InvalidInput) as caught:
        simple(mode="merge", key="id").run(lake, spark, landing=str(place))
    assert "latest" in str(caught.value)
    assert caught.value.facts["count"] == 1
    assert caught.value.facts["sample"] == [{"id": 1}]
    assert lake.table("sales").version == 0


def test_rows_that_are_the_same_in_all_columns_are_merged_once_and_counted(
    spark: SparkSession, lake: lw.Lake, place: Path
) -> None:
    deliver(place, "a", row(1, 10), row(1, 10), row(1, 10), row(2, None), row(2, None))
    result = simple(mode="merge", key="id").run(lake, spark, landing=str(place))
    assert rows(lake) == [(1, 10, 1), (2, None, 1)]
    assert kinds(result) == {"rows_the_same": 3}
    assert result.steps[0].rows == 2


def test_with_latest_older_rows_are_counted_and_equally_new_ones_refused(
    spark: SparkSession, lake: lw.Lake, place: Path
) -> None:
    pipeline = simple(mode="merge", key="id", latest="at")
    deliver(place, "a", row(1, 10, 1), row(1, 11, 2), row(1, 11, 2), row(2))
    result = pipeline.run(lake, spark, landing=str(place))
    assert rows(lake) == [(1, 11, 2), (2, 1, 1)]
    assert kinds(result) == {"rows_superseded": 1, "rows_the_same": 1}
    deliver(place, "b", row(1, 20, 3), row(1, 21, 3))
    with pytest.raises(InvalidInput) as caught:
        pipeline.run(lake, spark, landing=str(place))
    assert caught.value.facts["sample"] == [{"id": 1}]


def test_rows_without_a_value_of_latest_are_counted(
    spark: SparkSession, lake: lw.Lake, place: Path
) -> None:
    pipeline = simple(mode="merge", key="id", latest="at")
    deliver(place, "a", row(1, 10, 1))
    pipeline.run(lake, spark, landing=str(place))
    deliver(place, "b", {"id": 1, "amount": 99, "at": None}, row(2))
    result = pipeline.run(lake, spark, landing=str(place))
    assert rows(lake) == [(1, 10, 1), (2, 1, 1)]
    assert kinds(result) == {"rows_without_latest": 1}


def test_a_late_row_that_changes_nothing_changes_nothing_further_on_either(
    spark: SparkSession, lake: lw.Lake, place: Path
) -> None:
    pipeline = Pipeline("late")

    @pipeline.step(
        "silver", schema=ROW, mode="merge", key="id", latest="at", delete="amount IS NULL"
    )
    def silver(batch: Any = landing("sales")) -> Any:
        return batch

    @pipeline.step("copy", schema=ROW, mode="merge", key="id")
    def copy(rows: Any = new("silver")) -> Any:
        return rows

    deliver(place, "a", row(1, 10, 5), row(2, 20, 5))
    pipeline.run(lake, spark, landing=str(place))
    deliver(place, "b", row(1, 9, 4), row(2, None, 6), row(3, 30, 1))
    pipeline.run(lake, spark, landing=str(place))
    assert rows(lake, "silver") == [(1, 10, 5), (3, 30, 1)]
    assert [r for r in rows(lake, "copy") if r[0] != 2] == [(1, 10, 5), (3, 30, 1)]
    assert rows(lake, "copy")[1] == (2, 20, 5)


# What others do meanwhile, and new tables.


def test_rows_in_a_table_before_the_first_run_come_once_beside_those_of_the_run(
    spark: SparkSession, lake: lw.Lake, place: Path
) -> None:
    lake.create("bronze", ROW)
    with lake.transaction() as tx:
        tx.append("bronze", [row(1)])
    pipeline = Pipeline("copy")

    @pipeline.step("bronze", schema=ROW)
    def bronze(batch: Any = landing("sales")) -> Any:
        return batch

    @pipeline.step("silver", schema=ROW)
    def silver(added: Any = new("bronze")) -> Any:
        return added

    deliver(place, "a", row(2))
    pipeline.run(lake, spark, landing=str(place))
    assert rows(lake, "silver") == [(1, 1, 1), (2, 1, 1)]


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
@pytest.mark.always("iceberg")
def test_rows_of_others_come_once_between_runs_that_write_the_same_table(
    spark: SparkSession, lake: lw.Lake, place: Path, table_format: str
) -> None:
    pipeline = Pipeline("copy")

    @pipeline.step("bronze", schema=ROW, format=table_format)
    def bronze(batch: Any = landing("sales")) -> Any:
        return batch

    @pipeline.step("silver", schema=ROW)
    def silver(added: Any = new("bronze")) -> Any:
        return added

    deliver(place, "a", row(1))
    pipeline.run(lake, spark, landing=str(place))
    with lake.transaction() as tx:
        tx.append("bronze", [row(2)])
    deliver(place, "b", row(3))
    pipeline.run(lake, spark, landing=str(place))
    assert rows(lake, "silver") == [(1, 1, 1), (2, 1, 1), (3, 1, 1)]
    assert not pipeline.run(lake, spark, landing=str(place)).committed


def test_rows_that_are_committed_while_a_run_begins_come_with_the_next(
    spark: SparkSession, lake: lw.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.create("theirs", ROW)
    pipeline = Pipeline("copy")

    @pipeline.step("mine", schema=f"{ROW}, n int64")
    def mine(added: Any = new("theirs"), every: Any = whole("theirs")) -> Any:
        return added.crossJoin(every.selectExpr("count(*) AS n"))

    def bring(id_: int) -> None:
        with lake.transaction() as tx:
            tx.append("theirs", [row(id_)])

    bring(1)
    pipeline.run(lake, spark)
    bring(2)
    planned = lambda name: bring(3) if name == "pipeline.planned" else None  # noqa: E731
    with monkeypatch.context() as patch:
        patch.setattr("lakeward.pipeline.run.reach", planned)
        pipeline.run(lake, spark)
    pipeline.run(lake, spark)
    assert [r[0] for r in rows(lake, "mine")] == [1, 2, 3]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_rows_that_compaction_moved_are_new_once(
    spark: SparkSession, lake: lw.Lake, kind: str
) -> None:
    lake.create("theirs", ROW, format=kind)
    pipeline = Pipeline("copy")

    @pipeline.step("mine", schema=ROW)
    def mine(added: Any = new("theirs")) -> Any:
        return added

    def bring(*ids: int) -> None:
        for id_ in ids:
            lake.table("theirs").append([row(id_)])

    bring(1, 2)
    pipeline.run(lake, spark)
    lake.table("theirs").optimize()
    assert not pipeline.run(lake, spark).committed
    bring(3)
    lake.table("theirs").alter().add_column("note", "string").commit()
    lake.table("theirs").optimize()
    bring(4)
    assert len(lake.table("theirs").files()) == 2
    pipeline.run(lake, spark)
    assert [r[0] for r in rows(lake, "mine")] == [1, 2, 3, 4]
    assert not pipeline.run(lake, spark).committed


def test_the_rows_of_a_tables_first_version_are_new(spark: SparkSession, lake: lw.Lake) -> None:
    with lake.transaction(spark=spark) as tx:
        tx.sql("CREATE TABLE theirs AS SELECT 1L AS id, 1L AS amount, 1L AS at")
    assert lake.table("theirs").version == 0
    pipeline = Pipeline("copy")

    @pipeline.step("mine", schema=ROW)
    def mine(added: Any = new("theirs")) -> Any:
        return added

    assert pipeline.run(lake, spark).committed
    assert not pipeline.run(lake, spark).committed
    assert rows(lake, "mine") == [(1, 1, 1)]


# Steps that fail.


def test_a_step_that_raises_is_named_and_leaves_a_bundle(
    spark: SparkSession, lake: lw.Lake, place: Path
) -> None:
    def broken(batch: Any = landing("sales")) -> Any:
        what = f"no such thing as {batch.columns[0]}"
        raise KeyError(what)

    deliver(place, "a", row(1))
    with pytest.raises(StepFailed) as caught:
        simple(broken).run(lake, spark, landing=str(place))
    error = caught.value
    assert isinstance(error.__cause__, KeyError)
    line = broken.__code__.co_firstlineno + 2
    for word in ("sales", "broken", "test_pipeline_reports.py", f":{line}", "no such thing as id"):
        assert word in error.what
    bundle = last_run(lake)
    assert bundle["state"] == "failed"
    assert bundle["error"]["step"] == "sales"
    assert bundle["error"]["facts"]["line"] == line
    assert bundle["inputs"][0]["path"].endswith("a.parquet")
    assert bundle["code"]["sha256"].startswith("sha256:")
    assert rows(lake) == []


def test_a_run_that_is_interrupted_after_its_commit_is_recorded_as_committed(
    spark: SparkSession, lake: lw.Lake, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deliver(place, "a", row(1))
    heard: list[Any] = []
    lake.on("pipeline", heard.append)
    commit = lw.Transaction.commit

    def interrupted(tx: lw.Transaction) -> Any:
        commit(tx)
        raise KeyboardInterrupt

    monkeypatch.setattr(lw.Transaction, "commit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        simple().run(lake, spark, landing=str(place), run_id="interrupted")
    monkeypatch.undo()

    assert last_run(lake)["state"] == "ratified"
    assert not list((Path(lake.warehouse) / "_lakeward" / "runs").rglob("*.json"))
    assert lake.wait_for_listeners()
    assert [(e.state, dict(e.versions), e.error) for e in heard] == [
        ("ratified", {"sales": 1}, None)
    ]
    assert simple().run(lake, spark, landing=str(place), run_id="interrupted").rows == 1


def test_a_run_whose_table_is_dropped_right_after_its_commit_succeeds(
    spark: SparkSession, lake: lw.Lake, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deliver(place, "a", row(1))
    drop = lambda name: lake.drop("sales") if name == "pipeline.committed" else None  # noqa: E731
    monkeypatch.setattr("lakeward.pipeline.run.reach", drop)
    result = simple().run(lake, spark, landing=str(place))
    assert result.versions == {"sales": 1}
    assert result.bundle["tables"] == {}
    assert last_run(lake)["versions_out"] == {"sales": 1}


def test_rows_that_spark_cannot_compute_are_blamed_on_their_step(
    spark: SparkSession, lake: lw.Lake, place: Path
) -> None:
    def divides(batch: Any = landing("sales")) -> Any:
        return batch.selectExpr("id", "amount div (id - id) AS amount", "at")

    deliver(place, "a", row(1))
    with pytest.raises(StepFailed) as caught:
        simple(divides).run(lake, spark, landing=str(place))
    assert "divides" in caught.value.what
    assert "DIVIDE_BY_ZERO" in caught.value.what
    assert last_run(lake)["error"]["step"] == "sales"


def test_a_step_that_gives_no_frame_is_told(
    spark: SparkSession, lake: lw.Lake, place: Path
) -> None:
    def forgot(batch: Any = landing("sales")) -> None:
        batch.count()

    deliver(place, "a", row(1))
    with pytest.raises(InvalidInput, match=r"forgot.* returned NoneType"):
        simple(forgot).run(lake, spark, landing=str(place))


def test_the_bundle_tells_one_code_from_another(
    spark: SparkSession, lake: lw.Lake, place: Path
) -> None:
    def other(batch: Any = landing("sales")) -> Any:
        return batch.selectExpr("id", "amount + 1 AS amount", "at")

    def run(name: str, pipeline: Pipeline) -> Any:
        deliver(place, name, row(1))
        result = pipeline.run(lake, spark, landing=str(place))
        on_disk = (Path(lake.warehouse) / str(result.bundle_path)).read_bytes()
        return orjson.loads(on_disk)["code"]

    first, again, changed = run("a", simple()), run("b", simple()), run("c", simple(other))
    assert first == again
    assert first["sha256"] != changed["sha256"]
    assert first["steps"]["sales"]["sha256"] != changed["steps"]["sales"]["sha256"]


# Corrections.


def test_totals_follow_a_row_that_moves_to_another_group_or_is_deleted(
    spark: SparkSession, lake: lw.Lake, place: Path
) -> None:
    pipeline = Pipeline("totals")

    @pipeline.step(
        "silver", schema=ROW, mode="merge", key="id", latest="at", delete="amount IS NULL"
    )
    def silver(batch: Any = landing("sales")) -> Any:
        return batch

    @pipeline.step(
        "gold", schema="amount int64 not null, n int64", format="iceberg", mode="overwrite"
    )
    def gold(sales: Any = whole("silver")) -> Any:
        return sales.groupBy("amount").count().toDF("amount", "n")

    deliver(place, "a", row(1, 10), row(2, 10), row(3, 20))
    pipeline.run(lake, spark, landing=str(place))
    assert rows(lake, "gold") == [(10, 2), (20, 1)]
    deliver(place, "b", row(3, 10, 2), row(1, None, 2))
    pipeline.run(lake, spark, landing=str(place))
    assert rows(lake, "gold") == [(10, 2)]
    with lake.transaction() as tx:
        tx.delete("silver", where="id = 2")
    pipeline.run(lake, spark, landing=str(place))
    assert rows(lake, "gold") == [(10, 1)]
    assert not pipeline.run(lake, spark, landing=str(place)).committed


def test_a_run_is_a_span_with_its_steps_and_its_transaction_inside(
    spark: SparkSession, lake: lw.Lake, place: Path
) -> None:
    heard = Heard()
    trace(lake, provider=heard.provider)
    deliver(place, "a", row(1))
    result = simple().run(lake, spark, landing=str(place))

    (span,) = heard.spans("pipeline")
    assert facts(span) == {
        "pipeline": "simple",
        "state": "ratified",
        "transaction_id": result.run_id,
        "versions": ("sales=1",),
    }
    (step,) = heard.spans("step")
    assert (facts(step)["table"], facts(step)["rows"]) == ("sales", 1)
    (transaction,) = heard.spans("transaction")
    assert parent(step) == parent(transaction) == own(span)

    deliver(place, "b", row(2, None))

    def broken(batch: Any = landing("sales")) -> Any:
        raise ValueError(batch)

    heard.clear()
    with pytest.raises(StepFailed):
        simple(broken).run(lake, spark, landing=str(place))
    (span,) = heard.spans("pipeline")
    assert (facts(span)["state"], facts(span)["error.type"]) == ("failed", "StepFailed")
