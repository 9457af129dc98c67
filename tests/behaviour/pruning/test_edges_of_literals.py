"""Literals at the edges of what they can say: the last day, and patterns with a backslash."""

from __future__ import annotations

from datetime import date

import pytest

import lakeward as lw


def test_dates_are_compared_with_a_moment_of_the_last_day(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, {"id": "int64", "day": "date"})
    with shared_lake.transaction() as tx:
        tx.append(name, [{"id": 1, "day": date.max}, {"id": 2, "day": date.min}])

    noon = "TIMESTAMP '9999-12-31 12:00:00'"
    assert table.to_arrow(where=f"day >= {noon}")["id"].to_pylist() == []
    assert table.to_arrow(where=f"NOT day >= {noon}")["id"].to_pylist() == [1, 2]
    assert table.to_arrow(where=f"day < {noon}")["id"].to_pylist() == [1, 2]
    early = "TIMESTAMP '0001-01-01 12:00:00'"
    assert table.to_arrow(where=f"day > {early}")["id"].to_pylist() == [1]
    assert table.to_arrow(where=f"day <= {early}")["id"].to_pylist() == [2]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (r"endswith(x, '\\')", [1, 2]),
        (r"NOT endswith(x, '\\')", [3]),
        (r"startswith(x, '\\a')", [3]),
        (r"contains(x, '\\')", [1, 2, 3]),
        (r"x LIKE '%\\\\'", [1, 2]),
        (r"x LIKE '_\\\\'", [2]),
        (r"x ILIKE '\\\\A%'", [3]),
    ],
)
def test_patterns_with_a_backslash(
    shared_lake: lw.Lake, name: str, where: str, expected: list[int]
) -> None:
    table = shared_lake.create(name, {"id": "int64", "x": "string"})
    values = ["\\", "a\\", "\\ab"]
    with shared_lake.transaction() as tx:
        tx.append(name, [{"id": n, "x": v} for n, v in enumerate(values, 1)])

    assert table.to_arrow(where=where)["id"].to_pylist() == expected
