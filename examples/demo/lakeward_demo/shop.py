"""The demo's shop: its tables, and what a sale does to them."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from lakeward.write.transaction.transaction import Transaction

ORDERS: Final = "shop.orders"
STOCK: Final = "shop.stock"
COUNTRIES: Final = ("DE", "FR", "JP", "PT")
FRUIT: Final = ("apple", "pear", "plum")
EARLIER: Final = 1000
"""How many orders are older than the stock; the numbers of sales begin here."""

STOCK_SCHEMA: Final = pa.schema(
    [pa.field("sku", pa.string(), nullable=False), pa.field("quantity", pa.int64())]
)
ORDERS_SCHEMA: Final = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("sku", pa.string(), nullable=False),
        pa.field("quantity", pa.int64()),
        pa.field("cents", pa.int64()),
        pa.field("country", pa.string()),
    ]
)


def order(number: int, sku: str = "apple", quantity: int = 1) -> dict[str, Any]:
    """An order of this number; the same each time."""
    return {
        "id": number,
        "sku": sku,
        "quantity": quantity,
        "cents": 100 + number % 37,
        "country": COUNTRIES[number % len(COUNTRIES)],
    }


def sell(tx: Transaction, number: int, sku: str, quantity: int) -> None:
    """Take from the stock and write the order, in one transaction."""
    where = f"sku = '{sku}'"
    left = tx.read(STOCK, where=where).column("quantity")[0].as_py()
    tx.overwrite(STOCK, [{"sku": sku, "quantity": left - quantity}], where=where)
    tx.append(ORDERS, [order(number, sku, quantity)])
