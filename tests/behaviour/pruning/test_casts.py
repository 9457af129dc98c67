"""Conditions with casts, on files whose bounds the cast does not hold exactly."""

from __future__ import annotations

import itertools
from decimal import Decimal

import pytest

import lakeward as lw
from tests.behaviour.lakes import append


@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT"])
def test_wide_integers_are_compared_as_floating_numbers(
    shared_lake: lw.Lake, name: str, kind: str
) -> None:
    table = shared_lake.create(name, {"id": "int64", "x": "int64"})
    rows = [{"id": 1, "x": 2**63 - 1}, {"id": 2, "x": 5}]
    with shared_lake.transaction() as tx:
        tx.append(name, rows)

    where = f"CAST(x AS {kind}) > 6"
    assert table.to_arrow(where=where)["id"].to_pylist() == [1]
    with shared_lake.transaction() as tx:
        tx.delete(name, where=where)
    assert table.to_arrow()["id"].to_pylist() == [2]


@pytest.mark.parametrize("kind", ["decimal(10,2)", "decimal(30,8)", "decimal(6,0)"])
def test_files_of_decimals_that_equal_a_double_are_not_skipped(
    shared_lake: lw.Lake, name: str, kind: str
) -> None:
    table = shared_lake.create(name, {"x": kind})
    values = [Decimal(v) for v in ("3.55", "749106.57", "0.07", "-12.31", "2.00")]
    if kind == "decimal(6,0)":
        values = [Decimal(v) for v in (3, 749106, 0, -12)]
    for value in values:
        append(shared_lake, name, [{"x": value}])

    conditions = ("{x} = {f!r}e0", "{x} >= :v", "{x} <= :v", "{x} IN (:v)")
    terms = ("x", "CAST(x AS DOUBLE)", "x * 1e0")
    for value, condition, term in itertools.product(values, conditions, terms):
        where = condition.format(x=term, f=float(value))
        params = {"v": float(value)} if ":v" in where else None
        found = table.to_arrow(where=where, params=params)["x"].to_pylist()
        assert value in found, where
        assert table.count(where, params=params) == len(found)
