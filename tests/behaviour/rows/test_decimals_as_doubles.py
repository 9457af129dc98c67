"""Decimals where doubles are asked for: the nearest double, in every operation."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pytest

import lakeward as lw
from tests.behaviour.lakes import append

_CHOOSE = random.Random(2001)
_PRICES = [Decimal(_CHOOSE.randrange(10**9)).scaleb(-2) for _ in range(300)]
_WIDE = [Decimal(_CHOOSE.randrange(10**22)).scaleb(-5) for _ in range(300)]


@pytest.fixture
def prices(shared_lake: lw.Lake, name: str) -> lw.Table:
    """Prices as decimals of two sizes, and as the nearest doubles."""
    schema = "id int64, price decimal(10,2), wide decimal(22,5), f double"
    table = shared_lake.create(name, schema)
    pairs = enumerate(zip(_PRICES, _WIDE, strict=True))
    table.append([{"id": n, "price": p, "wide": w, "f": float(p)} for n, (p, w) in pairs])
    return table


@pytest.mark.parametrize(
    "where",
    [
        "price = f",
        "CAST(price AS DOUBLE) = f",
        "price IS NOT DISTINCT FROM f",
        "NOT (price < f OR price > f)",
        "CASE WHEN price = f THEN 1 ELSE 2 END = 1",
        "price / 2 = f / 2",
        "price * 1e0 = f",
    ],
)
def test_a_decimal_equals_its_nearest_double(prices: lw.Table, where: str) -> None:
    assert prices.count(where) == len(_PRICES)
    assert prices.to_arrow(where=where).num_rows == len(_PRICES)
    prices.delete(where=f"NOT ({where})")
    assert prices.count() == len(_PRICES)


def test_decimals_are_assigned_as_the_nearest_doubles(prices: lw.Table) -> None:
    for text, expected in (
        ("CAST(price AS DOUBLE)", [float(p) for p in _PRICES]),
        ("price / 2", [float(p) / 2 for p in _PRICES]),
        ("CAST(wide AS DOUBLE)", [float(w) for w in _WIDE]),
    ):
        prices.update(set={"f": text})
        assert prices.to_arrow().sort_by("id")["f"].to_pylist() == expected


def test_a_query_inserts_decimals_as_the_nearest_doubles(
    shared_lake: lw.Lake, prices: lw.Table
) -> None:
    with shared_lake.transaction() as tx:
        for column, start in (("price", 1000), ("wide", 2000)):
            rows = f"SELECT id + {start}, {column} FROM {prices.name} WHERE id < 1000"
            tx.sql(f"INSERT INTO {prices.name} (id, f) {rows}")

    found = prices.to_arrow(where="id >= 1000").sort_by("id")["f"].to_pylist()
    assert found == [float(p) for p in (*_PRICES, *_WIDE)]


def test_a_merge_pairs_decimals_with_their_nearest_doubles(
    shared_lake: lw.Lake, prices: lw.Table
) -> None:
    with shared_lake.transaction() as tx:
        data = [{"p": float(p)} for p in dict.fromkeys(_PRICES)]
        on = "target.price = source.p"
        done = tx.merge(prices.name, data, on=on, matched={"f": "source.p"}, not_matched=None)
        assert done.updated == len(_PRICES)
        found: Any = tx.sql(
            f"MERGE INTO {prices.name} t USING (SELECT DISTINCT f AS p FROM {prices.name}) s"
            " ON t.price = s.p WHEN MATCHED THEN UPDATE SET id = -1"
        )
        assert found.updated == len(_PRICES)


def test_checks_and_generated_columns_take_the_nearest_double(
    shared_lake: lw.Lake, name: str, table_format: str
) -> None:
    generated = ", g double generated always as (price * 1e0)" if table_format == "delta" else ""
    schema = f"price decimal(10,2), f double{generated}"
    table = shared_lake.create(name, schema, constraints={"same": "f = price"})
    rows = [{"price": p, "f": float(p)} for p in _PRICES]

    append(shared_lake, name, rows)
    if generated:
        assert table.to_arrow()["g"].to_pylist() == [r["f"] for r in rows]
        append(shared_lake, name, [{**r, "g": r["f"]} for r in rows])
