"""A shop's orders, from landing files to what a dashboard shows: the demo's pipeline.

Run it with `lakeward run shop_pipeline.py --landing DIR`: on this machine, or with `--master` on a
cluster, with the lake on PostgreSQL and the files on S3, as it is.
"""

from __future__ import annotations

from typing import Any

from lakeward.pipeline import Pipeline, landing, new, whole

pipeline = Pipeline("shop")

ORDER = """
    order_id int64 not null, customer_id int64, sku string, quantity int32, cents int64,
    status string, ordered_at timestamp, updated_at timestamp
"""


@pipeline.step("bronze.orders", schema=f"{ORDER}, file string")
def bronze_orders(batch: Any = landing("orders")) -> Any:
    """Every row as it came, with the file that brought it."""
    return batch.selectExpr("*", "_metadata.file_name AS file")


@pipeline.step(
    "silver.customers",
    schema="customer_id int64 not null, name string, country string, updated_at timestamp",
    mode="merge",
    key="customer_id",
    latest="updated_at",
)
def silver_customers(batch: Any = landing("customers")) -> Any:
    """One row a customer: the newest."""
    return batch


@pipeline.step(
    "silver.orders",
    schema=ORDER,
    mode="merge",
    key="order_id",
    latest="updated_at",
    drop={"has a product": "sku IS NOT NULL", "has a quantity": "quantity > 0"},
    warn={"was not cancelled": "status <> 'cancelled'"},
    constraints={"price": "cents >= 0"},
)
def silver_orders(rows: Any = new("bronze.orders")) -> Any:
    """One row an order: the newest that makes sense."""
    return rows.drop("file")


@pipeline.step(
    "gold.daily_sales",
    format="iceberg",
    schema="""
        day date not null, country string not null, orders int64, pieces int64, cents int64
    """,
    mode="overwrite",
    expect={"nothing is sold for less than nothing": "cents >= 0"},
)
def gold_daily_sales(
    orders: Any = whole("silver.orders"), customers: Any = whole("silver.customers")
) -> Any:
    """What was sold each day and where.

    Counted from all orders: one that is moved to another day, or whose customer moves to another
    country, must leave the total that it was part of.
    """
    return orders.sparkSession.sql(
        """
        SELECT to_date(o.ordered_at) AS day, c.country, count(*) AS orders,
            sum(o.quantity) AS pieces, sum(o.cents) AS cents
        FROM {orders} AS o JOIN {customers} AS c ON o.customer_id = c.customer_id
        WHERE o.status <> 'cancelled'
        GROUP BY ALL
        """,
        orders=orders,
        customers=customers,
    )
