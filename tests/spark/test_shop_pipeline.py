"""The demo's pipeline: sales by day and country follow corrections."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import lakeward as lw
from lakeward_demo.batches import CUSTOMERS, ORDERS
from lakeward_demo.shop_pipeline import pipeline


def moment(day: int) -> datetime:
    return datetime(2026, 1, day, tzinfo=UTC)


def order(id_: int, customer: int, day: int, updated: int) -> dict[str, object]:
    """An order of a tea; `updated` is the day on which it was last changed."""
    return {
        "order_id": id_,
        "customer_id": customer,
        "sku": "tea-S",
        "quantity": 1,
        "cents": 100,
        "status": "paid",
        "ordered_at": moment(day),
        "updated_at": moment(updated),
    }


def customer(id_: int, country: str, updated: int) -> dict[str, object]:
    return {"customer_id": id_, "name": "x", "country": country, "updated_at": moment(updated)}


def test_sales_follow_an_order_to_another_day_and_a_customer_to_another_country(
    spark: SparkSession, tmp_path: Path
) -> None:
    def deliver(kind: str, name: str, schema: pa.Schema, *rows: dict[str, object]) -> None:
        place = tmp_path / "landing" / kind
        place.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(list(rows), schema), place / f"{name}.parquet")

    deliver("orders", "a", ORDERS, order(1, 1, 5, 5), order(2, 1, 5, 5), order(3, 2, 5, 5))
    deliver("customers", "a", CUSTOMERS, customer(1, "PT", 1), customer(2, "KE", 1))
    with lw.open(tmp_path / "lake") as lake:

        def sales() -> list[tuple[int, str, int]]:
            pipeline.run(lake, spark, landing=str(tmp_path / "landing"))
            found = lake.table("gold.daily_sales").to_arrow().to_pylist()
            return sorted((r["day"].day, r["country"], r["orders"]) for r in found)

        assert sales() == [(5, "KE", 1), (5, "PT", 2)]
        deliver("orders", "b", ORDERS, order(1, 1, 6, 7), order(3, 2, 6, 7))
        assert sales() == [(5, "PT", 1), (6, "KE", 1), (6, "PT", 1)]
        deliver("customers", "b", CUSTOMERS, customer(2, "PT", 8))
        assert sales() == [(5, "PT", 1), (6, "PT", 2)]
