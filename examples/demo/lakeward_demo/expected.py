"""What the shop's tables must hold, worked out from the batches without Spark or the lake."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeward_demo.batches import Shop

ORDER_COLUMNS: Final = ("order_id", "customer_id", "sku", "quantity", "cents", "status")
SALES_COLUMNS: Final = ("day", "country", "orders", "pieces", "cents")


def digest(rows: Iterable[Sequence[Any]]) -> str:
    """A checksum of rows, whatever order they come in."""
    lines = sorted(json.dumps([v if isinstance(v, int) else str(v) for v in r]) for r in rows)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def landed(shop: Shop, batches: int) -> int:
    """How many order rows all batches together bring."""
    return sum(shop.orders(n).num_rows for n in range(batches))


def orders(shop: Shop, batches: int) -> list[tuple[Any, ...]]:
    """The newest sensible row of each order."""
    newest = _newest_orders(shop, batches).select(ORDER_COLUMNS)
    return list(zip(*(c.to_pylist() for c in newest.columns), strict=True))


def sales(shop: Shop, batches: int) -> list[tuple[Any, ...]]:
    """What was sold each day in each country, and not cancelled."""
    every = pa.concat_tables([shop.customers_of(n) for n in range(batches)])
    customers = _newest(every, "customer_id").select(["customer_id", "country"])
    kept = _newest_orders(shop, batches)
    kept = kept.filter(pc.field("status") != "cancelled")
    day = pc.strftime(kept["ordered_at"], "%Y-%m-%d")
    counted = (
        kept.append_column("day", day)
        .join(customers, "customer_id", join_type="inner")
        .group_by(["day", "country"])
        .aggregate([([], "count_all"), ("quantity", "sum"), ("cents", "sum")])
        .select(["day", "country", "count_all", "quantity_sum", "cents_sum"])
    )
    return list(zip(*(c.to_pylist() for c in counted.columns), strict=True))


def _newest_orders(shop: Shop, batches: int) -> pa.Table:
    every = pa.concat_tables([shop.orders(n) for n in range(batches)])
    sensible = every.filter(pc.field("sku").is_valid() & (pc.field("quantity") > 0))
    return _newest(sensible, "order_id")


def _newest(rows: pa.Table, key: str) -> pa.Table:
    ordered = rows.sort_by([(key, "ascending"), ("updated_at", "descending")])
    others = [n for n in rows.column_names if n != key]
    found = ordered.group_by(key, use_threads=False).aggregate([(n, "first") for n in others])
    names = [n.removesuffix("_first") if n != key else n for n in found.column_names]
    return found.rename_columns(names).select(rows.column_names)
