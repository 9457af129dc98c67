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
    mode="merge",
    key=["day", "country"],
    delete="orders = 0",
    expect={"nothing is sold for less than nothing": "cents >= 0"},
)
def gold_daily_sales(
    changed: Any = new("silver.orders"),
    moved: Any = new("silver.customers"),
    orders: Any = whole("silver.orders"),
    customers: Any = whole("silver.customers"),
) -> Any:
    """What was sold each day and where; only days with news are counted again."""
    return changed.sparkSession.sql(
        """
        WITH people AS (
            SELECT c.customer_id, c.country, m.customer_id IS NOT NULL AS moved
            FROM {customers} AS c
            LEFT JOIN (SELECT DISTINCT customer_id FROM {moved}) AS m
                ON c.customer_id = m.customer_id
        ),
        counted AS (
            SELECT to_date(o.ordered_at) AS day, p.country, bool_or(p.moved) AS moved,
                count(o.cents) FILTER (WHERE o.status <> 'cancelled') AS orders,
                sum(o.quantity) FILTER (WHERE o.status <> 'cancelled') AS pieces,
                sum(o.cents) FILTER (WHERE o.status <> 'cancelled') AS cents
            FROM {orders} AS o JOIN people AS p ON o.customer_id = p.customer_id
            GROUP BY ALL
        ),
        days AS (
            SELECT to_date(ordered_at) AS day FROM {changed}
            UNION
            SELECT day FROM counted WHERE moved
        )
        SELECT days.day, countries.country, coalesce(counted.orders, 0) AS orders,
            coalesce(counted.pieces, 0) AS pieces, coalesce(counted.cents, 0) AS cents
        FROM days CROSS JOIN (SELECT DISTINCT country FROM people) AS countries
        LEFT JOIN counted ON counted.day = days.day AND counted.country = countries.country
        """,
        changed=changed,
        moved=moved,
        orders=orders,
        customers=customers,
    )
