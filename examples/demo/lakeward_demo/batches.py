"""The demo's landing batches: orders and customers, with changes, late, doubled and dirty rows.

The same seed and scale give the same rows. Columns are made by Arrow, so that a million rows take
about a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

COUNTRIES: Final = ("DE", "FR", "JP", "PT", "BR", "KE")
SKUS: Final = tuple(f"{kind}-{size}" for kind in ("tea", "cup", "pot") for size in ("S", "M", "L"))
STATUSES: Final = ("placed", "paid", "shipped", "cancelled")
DAYS: Final = 30
_FIRST_DAY: Final = datetime(2026, 1, 1, tzinfo=UTC)
_DAY_US: Final = 86_400_000_000
# Spark gives row groups to tasks, so a few large ones leave cores with nothing to do.
_ROW_GROUP: Final = 65_536

ORDERS: Final = pa.schema(
    [
        ("order_id", pa.int64()),
        ("customer_id", pa.int64()),
        ("sku", pa.string()),
        ("quantity", pa.int32()),
        ("cents", pa.int64()),
        ("status", pa.string()),
        ("ordered_at", pa.timestamp("us", "UTC")),
        ("updated_at", pa.timestamp("us", "UTC")),
    ]
)
CUSTOMERS: Final = pa.schema(
    [
        ("customer_id", pa.int64()),
        ("name", pa.string()),
        ("country", pa.string()),
        ("updated_at", pa.timestamp("us", "UTC")),
    ]
)


@dataclass(frozen=True, slots=True)
class Shop:
    """What is bought where.

    Attributes:
        landing: The directory that gets batches.
        scale: 1 for some 20,000 orders a batch.
        seed: Other seeds, other orders.
    """

    landing: Path
    scale: float = 1.0
    seed: int = 7

    @property
    def orders_per_batch(self) -> int:
        """New orders in each batch."""
        return max(100, int(20_000 * self.scale))

    @property
    def customers(self) -> int:
        """How many there are in all."""
        return max(50, self.orders_per_batch // 10)

    def deliver(self, number: int, *, damaged: bool = False) -> list[Path]:
        """Write the files of a batch, each under its name only when it is whole.

        Args:
            number: From 0.
            damaged: With three orders of a negative price, which no table may take.
        """
        name = f"batch-{number:03d}.parquet"
        files = {
            "orders": self.orders(number, damaged=damaged),
            "customers": self.customers_of(number),
        }
        out = []
        for directory, rows in files.items():
            place = self.landing / directory
            place.mkdir(parents=True, exist_ok=True)
            aside = place / f".{name}"
            pq.write_table(rows, aside, row_group_size=_ROW_GROUP)
            aside.replace(place / name)
            out.append(place / name)
        return out

    def orders(self, number: int, *, damaged: bool = False) -> pa.Table:
        """The orders of a batch: new ones, changes of old ones, late, doubled and dirty rows."""
        count = self.orders_per_batch
        new = self._states(pa.array(range(number * count, (number + 1) * count)), 0)
        parts = [new, new.slice(0, count // 100)]
        if number:
            known = _whole(self._chance(number, 1, count // 5), number * count)
            parts.append(self._states(pc.unique(known), number))
            late = _whole(self._chance(number, 2, count // 20), number * count)
            parts.append(self._states(pc.unique(late), max(0, number - 2)))
        parts.append(self._dirty(new.slice(0, max(5, count // 50))))
        if damaged:
            ids = pa.array(range(number * count + count // 2, number * count + count // 2 + 3))
            bad, cents = self._states(ids, 1), pa.array([-1, -20, -300], pa.int64())
            parts.append(bad.set_column(bad.schema.get_field_index("cents"), "cents", cents))
        return pa.concat_tables(parts).cast(ORDERS)

    def _states(self, ids: pa.Array, change: int) -> pa.Table:
        """Orders after a number of changes; an order is the same whoever asks for it."""
        ids = pc.cast(ids, pa.int64())
        mixed = pc.bit_wise_and(pc.multiply(pc.add(ids, self.seed), 2_654_435_761), 2**31 - 1)
        day = _modulo(mixed, DAYS)
        ordered = pc.add(pc.multiply(day, _DAY_US), pc.multiply(_modulo(mixed, 86_399), 1_000_000))
        first = int(_FIRST_DAY.timestamp()) * 1_000_000
        updated = pc.add(ordered, change * 3_600_000_000)
        status = _modulo(pc.add(mixed, change), len(STATUSES)) if change else _zeros(ids)
        columns = [
            ids,
            _modulo(mixed, self.customers),
            _chosen(SKUS, _modulo(mixed, len(SKUS))),
            pc.cast(pc.add(_modulo(mixed, 5), 1), pa.int32()),
            pc.add(pc.multiply(_modulo(mixed, 97), 50), 199),
            _chosen(STATUSES, status),
            _moment(pc.add(ordered, first)),
            _moment(pc.add(updated, first)),
        ]
        return pa.table(dict(zip(ORDERS.names, columns, strict=True)))

    def _dirty(self, some: pa.Table) -> pa.Table:
        """Rows that nobody can use: no product, or nothing of it."""
        half = some.num_rows // 2
        no_sku, nothing = some.slice(0, half), some.slice(half)
        sku = pa.nulls(no_sku.num_rows, pa.string())
        zero = pa.array([0] * nothing.num_rows, pa.int32())
        where = some.schema.get_field_index
        return pa.concat_tables(
            [
                no_sku.set_column(where("sku"), "sku", sku),
                nothing.set_column(where("quantity"), "quantity", zero),
            ]
        )

    def customers_of(self, number: int) -> pa.Table:
        """All customers in the first batch, and those that moved in later ones."""
        if number:
            ids = pc.unique(_whole(self._chance(number, 3, self.customers // 20), self.customers))
        else:
            ids = pa.array(range(self.customers))
        ids = pc.cast(ids, pa.int64())
        first = int(_FIRST_DAY.timestamp()) * 1_000_000
        changed = pa.array([first + number * _DAY_US] * len(ids))
        columns = [
            ids,
            pc.binary_join_element_wise("Customer", pc.cast(ids, pa.string()), " "),
            _chosen(COUNTRIES, _modulo(pc.add(ids, number), len(COUNTRIES))),
            _moment(changed),
        ]
        return pa.table(dict(zip(CUSTOMERS.names, columns, strict=True)))

    def _chance(self, number: int, kind: int, count: int) -> pa.Array:
        return pc.random(max(1, count), initializer=self.seed * 1000 + number * 10 + kind)


def _whole(chance: pa.Array, below: int) -> pa.Array:
    return pc.cast(pc.floor(pc.multiply(chance, below)), pa.int64())


def _modulo(numbers: pa.Array, by: int) -> pa.Array:
    return pc.subtract(numbers, pc.multiply(pc.divide(numbers, by), by))


def _zeros(like: pa.Array) -> pa.Array:
    return pc.subtract(like, like)


def _chosen(words: tuple[str, ...], positions: pa.Array) -> pa.Array:
    return pa.array(words).take(positions)


def _moment(micros: pa.Array) -> pa.Array:
    return pc.cast(micros, pa.timestamp("us", "UTC"))
