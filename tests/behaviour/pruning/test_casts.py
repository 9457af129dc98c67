"""Conditions with casts, on files whose bounds the cast does not hold exactly."""

from __future__ import annotations

import pytest

import lakeward as lw


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
