"""Pipelines that follow the changes of tables: inserts, updates and deletes of both formats."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import lakeward as lw
from lakeward.errors import InvalidInput, StepFailed
from lakeward.pipeline import Pipeline, changes, landing, new, whole

ORDER = "id int64 not null, sku string, cents int64, gone boolean"


@pytest.fixture
def lake(tmp_path: Path) -> Generator[lw.Lake]:
    with lw.open(tmp_path / "lake") as opened:
        yield opened


class Shop:
    """A shop whose totals and whose copy of its orders follow the changes of its orders."""

    def __init__(self, lake: lw.Lake, spark: SparkSession, place: Path, format: str) -> None:  # noqa: A002
        self._lake, self._spark, self._place = lake, spark, place
        (place / "orders").mkdir(parents=True)
        self.pipeline = pipeline = Pipeline("shop")
        self.kinds: list[tuple[str, int]] = []

        @pipeline.step(
            "silver.orders", schema=ORDER, format=format, mode="merge", key="id", delete="gone"
        )
        def silver(batch: Any = landing("orders")) -> Any:
            return batch

        @pipeline.step(
            "gold.sales",
            schema="sku string not null, cents int64",
            mode="merge",
            key="sku",
            delete="cents IS NULL",
        )
        def sales(
            moved: Any = changes("silver.orders", key="id"), orders: Any = whole("silver.orders")
        ) -> Any:
            self.kinds = sorted((r["_change_type"], r["id"]) for r in moved.collect())
            skus = moved.select("sku").distinct()
            totals = orders.groupBy("sku").sum("cents").toDF("sku", "cents")
            return skus.join(totals, "sku", "left")

        @pipeline.step(
            "gold.orders",
            schema=ORDER,
            format="iceberg",
            mode="apply",
            key="id",
            drop={"is large": "cents >= 5"},
        )
        def copy(moved: Any = changes("silver.orders")) -> Any:
            return moved

    def deliver(self, name: str, *rows: tuple[int, str, int, bool]) -> None:
        columns = [pa.array(c) for c in zip(*rows, strict=True)]
        table = pa.table(columns, ["id", "sku", "cents", "gone"])
        pq.write_table(table, self._place / "orders" / f"{name}.parquet")

    def run(self) -> bool:
        """Run; whether it committed, and totals and copy are those of the orders."""
        done = self.pipeline.run(self._lake, self._spark, landing=str(self._place))
        orders = self._lake.table("silver.orders").to_arrow().to_pylist()
        totals: dict[str, int] = {}
        for row in orders:
            totals[row["sku"]] = totals.get(row["sku"], 0) + row["cents"]
        found = self._lake.table("gold.sales").to_arrow().to_pylist()
        assert {r["sku"]: r["cents"] for r in found} == totals
        copied = self._lake.table("gold.orders").to_arrow().to_pylist()
        by_id = {r["id"]: r for r in orders if r["cents"] >= 5}
        assert {r["id"]: r for r in copied} == by_id
        assert len(copied) == len(by_id)
        return done.committed


@pytest.mark.always("iceberg")
@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_totals_and_copies_follow_corrections_and_deletes_of_the_run_and_of_others(
    spark: SparkSession, lake: lw.Lake, tmp_path: Path, format_: str
) -> None:
    shop = Shop(lake, spark, tmp_path / "landing", format_)
    shop.deliver("a", (1, "tea", 10, False), (2, "cup", 20, False), (3, "jar", 30, False))
    assert shop.run()
    assert shop.kinds == [("insert", 1), ("insert", 2), ("insert", 3)]

    # Order 1 moves from tea to cup, and nothing of tea is left; order 3 is deleted.
    shop.deliver("b", (1, "cup", 10, False), (2, "cup", 20, False), (3, "jar", 30, True))
    assert shop.run()
    assert shop.kinds == [("delete", 3), ("update_postimage", 1), ("update_preimage", 1)]
    assert not shop.run()

    # Others change, compact and delete rows; then the run itself changes some of them again.
    orders = lake.table("silver.orders")
    orders.append({"id": [4, 5], "sku": ["pot", "pot"], "cents": [40, 50], "gone": [False] * 2})
    orders.update(set={"sku": "'mug'", "cents": "1"}, where="id = 2")
    orders.optimize()
    orders.delete(where="id = 4")
    shop.deliver("c", (2, "mug", 7, False), (5, "pan", 50, False))
    assert shop.run()
    assert shop.kinds.count(("insert", 4)) == shop.kinds.count(("delete", 4)) == 1
    assert shop.kinds.count(("update_postimage", 2)) == 2
    assert not shop.run()
    assert lake.table("gold.orders").count() == 3
    assert not list((tmp_path / "lake").rglob("scratch/*/*")), "changes are left after the run"


def test_a_run_that_fails_sees_the_same_changes_again(spark: SparkSession, lake: lw.Lake) -> None:
    """The position moves with the commit only."""
    lake.create("silver.orders", ORDER, format="iceberg")
    orders = lake.table("silver.orders")
    orders.append({"id": [1], "sku": ["tea"], "cents": [1], "gone": [False]})
    pipeline = Pipeline("copies")
    fails = True

    @pipeline.step("gold.orders", schema=ORDER, mode="apply", key="id")
    def copy(moved: Any = changes("silver.orders", key="id")) -> Any:
        if fails:
            message = "not yet"
            raise RuntimeError(message)
        return moved

    for _ in range(2):
        with pytest.raises(StepFailed, match="not yet"):
            pipeline.run(lake, spark)
    fails = False
    assert pipeline.run(lake, spark).committed
    fails = True
    orders.update(set={"sku": "'cup'"}, where="id = 1")
    with pytest.raises(StepFailed, match="not yet"):
        pipeline.run(lake, spark)
    fails = False
    assert pipeline.run(lake, spark).committed
    assert lake.table("gold.orders").to_arrow().to_pylist() == orders.to_arrow().to_pylist()


def test_rows_that_do_not_say_what_they_are_cannot_be_applied(
    spark: SparkSession, lake: lw.Lake
) -> None:
    lake.create("silver.orders", ORDER)
    lake.table("silver.orders").append(
        {"id": [1, 1], "sku": ["a", "b"], "cents": [1, 2], "gone": [False] * 2}
    )
    pipeline = Pipeline("copies")

    @pipeline.step("gold.orders", schema=ORDER, mode="apply", key="id")
    def copy(rows: Any = new("silver.orders")) -> Any:
        return rows

    with pytest.raises(InvalidInput, match="applies changes, and gives no _change_type"):
        pipeline.run(lake, spark)

    other = Pipeline("ambiguous")

    @other.step("gold.orders", schema=ORDER, mode="apply", key="id")
    def all_of(rows: Any = changes("silver.orders")) -> Any:
        return rows

    with pytest.raises(InvalidInput, match="which one commit changed"):
        other.run(lake, spark)
    assert lake.table("gold.orders").count() == 0
