"""Joins on DataFusion whose rows are wrong if it swaps tables or passes values of joins down."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from datafusion import SessionContext

import lakeward as lw
from lakeward.engines.sql.datafusion import new_context
from lakeward.engines.sql.planned import Way, way_of
from lakeward.errors import UnsupportedFeature

pytestmark = [pytest.mark.formats("delta"), pytest.mark.local]

_CASES = {
    "SELECT s.k FROM {big} b RIGHT JOIN {small} s ON s.k = b.k WHERE b.k IS NULL ORDER BY 1": [
        *range(5)
    ],
    "SELECT s.k FROM {small} s LEFT JOIN {big} b ON s.k = b.k WHERE b.k IS NULL ORDER BY 1": [
        *range(5)
    ],
    "SELECT count(*) FROM {big} b FULL JOIN {small} s ON s.k = b.k WHERE b.k IS NULL": [5],
    # The third table's values of x must not select rows of the first table by its x.
    "SELECT sum(a.x) FROM {small} a JOIN {big} b ON a.k = b.k JOIN {one} c ON b.x = c.x"
    " WHERE a.x IS NULL OR b.x IS NOT NULL": [5],
    # The values of x of the table with one row must not select rows of `small` by its x.
    "SELECT count(*) FROM {one} s JOIN ({small} a JOIN {big} b ON a.k = b.k) ON s.x = b.x": [5],
    "SELECT count(*) FROM {one} s JOIN (SELECT a.x, b.x FROM {small} a LEFT JOIN {big} b"
    " ON a.k = b.k GROUP BY a.x, b.x) ON s.x = b.x": [1],
    # The bound of the first rows by b.y must not select rows of `small` by its y.
    "SELECT b.y FROM {small} a JOIN {big} b ON a.k = b.k JOIN {big} c ON b.k = c.k"
    " ORDER BY b.y LIMIT 1": [-9],
    # The condition on the first two tables must not select rows of the third by its columns.
    "SELECT count(*) FROM {one} a FULL JOIN ({one} b FULL JOIN {small} c ON b.k = c.x AND c.k < 0)"
    " ON a.y = c.k WHERE c.k <> c.x AND (a.x > 2 OR b.k IS NULL)": [9],
    "SELECT count(*) FROM {big} WHERE k IN (SELECT k FROM {small})": [5],
    "SELECT count(*) FROM {small} s WHERE NOT EXISTS (SELECT 1 FROM {big} b WHERE b.k = s.k)": [5],
    "SELECT count(*) FROM {small} s WHERE (SELECT max(b.k) FROM {big} b WHERE b.k = s.k) IS NULL": [
        5
    ],
}
_TABLES: dict[str, dict[str, Sequence[int]]] = {
    "small": {"k": range(10), "x": [1] * 10, "y": range(10)},
    "big": {"k": range(5, 3000), "x": [2] * 2995, "y": range(-5, -3000, -1)},
    "one": {"k": [0], "x": [2], "y": [0]},
}


@pytest.mark.parametrize("query", _CASES)
def test_joins_of_all_kinds_return_the_right_rows(
    shared_lake: lw.Lake, name: str, query: str
) -> None:
    names = {which: f"{name}_{which}" for which in _TABLES}
    for which, columns in _TABLES.items():
        rows = pa.table({n: pa.array(values, pa.int64()) for n, values in columns.items()})
        shared_lake.create(names[which], like=rows).append(rows)
    rows = shared_lake.sql(query.format(**names)).to_arrow()
    assert rows.column(0).to_pylist() == _CASES[query]


@pytest.mark.parametrize(
    ("query", "way"),
    [
        ("SELECT t.k FROM t JOIN u ON t.k = u.k", Way.SWAPPED),
        ("SELECT t.k FROM t, u WHERE t.k < u.k AND t.x + u.x > 3", Way.SWAPPED),
        ("SELECT k FROM t WHERE k NOT IN (SELECT k FROM u WHERE k IS NOT NULL)", Way.SWAPPED),
        (
            "SELECT t.k, count(*) FROM t JOIN u ON t.k = u.k GROUP BY 1 HAVING count(*) > 1",
            Way.SWAPPED,
        ),
        ("SELECT k FROM t WHERE k > (SELECT max(u.k) FROM u JOIN t ON u.k = t.k)", Way.SWAPPED),
        ("SELECT t.k FROM t LEFT JOIN u ON t.k = u.k WHERE u.k IS NULL", Way.PLAIN),
        (
            "SELECT t.s, u.s FROM t LEFT JOIN u ON t.k = u.k WHERE u.s IS NULL OR t.s = 'a'",
            Way.UNPRUNED,
        ),
        ("SELECT t.s FROM t LEFT JOIN u ON t.k = u.k WHERE u.x IS NULL", Way.PLAIN),
        ("SELECT k FROM t WHERE k > (SELECT max(u.k) FROM u LEFT JOIN t ON u.k = t.k)", Way.PLAIN),
        ("SELECT t.k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k) OR t.x = 1", Way.PLAIN),
        ("SELECT * FROM (SELECT u.x FROM t JOIN u ON t.k = u.k LIMIT 5) WHERE x > 1", Way.PLAIN),
        ("SELECT t.k FROM t JOIN u ON t.k = u.k WHERE t.s = 'one\nTableScan'", Way.SWAPPED),
        ("SELECT t.s FROM t LEFT JOIN u ON t.k = u.x + 1 WHERE u.x IS NULL", Way.PLAIN),
        ("SELECT k FROM t ORDER BY k LIMIT 3", Way.DYNAMIC),
        ("SELECT max(k) FROM t", Way.DYNAMIC),
        ("SELECT k FROM t WHERE k > 3", Way.PLAIN),
    ],
)
def test_a_query_is_planned_in_a_way_that_is_safe_for_it(query: str, way: Way) -> None:
    context = new_context()
    for name in ("t", "u"):
        context.from_arrow(pa.table({"k": [1], "x": [1], "s": ["a"]}), name=name)
    assert way_of(SessionContext.sql(context, query)) is way


def test_a_way_does_not_outlast_its_query() -> None:
    context = new_context()
    rows = pa.table({"k": [1, 2], "x": [1, 2], "s": ["a", "b"]})
    for name in ("t", "u"):
        context.from_arrow(rows, name=name)
    unpruned = (
        "SELECT t.s FROM t LEFT JOIN u ON t.k = u.k AND t.x = u.x WHERE u.k IS NULL OR t.k = 1"
    )
    bounded = "SELECT k FROM t ORDER BY k LIMIT 1"
    before = [context.sql(q).optimized_logical_plan().display_indent() for q in (unpruned, bounded)]
    assert "t projection" not in before[0]
    assert "t projection=[k]" in before[1]
    assert [context.sql(q).to_pydict() for q in (unpruned, bounded)] == [{"s": ["a"]}, {"k": [1]}]


def test_a_query_that_would_lose_rows_in_every_way_is_refused(
    shared_lake: lw.Lake, name: str
) -> None:
    shared_lake.create(f"{name}_a", "id int64")
    shared_lake.create(f"{name}_b", "id int64, a_id int32")
    joined = f"{name}_a a LEFT JOIN {name}_b b ON a.id = {{}} WHERE b.id IS NULL"
    with pytest.raises(UnsupportedFeature, match="different types") as error:
        shared_lake.sql(f"SELECT a.id FROM {joined.format('b.a_id')}")
    assert "engine='duckdb'" in str(error.value.hint)
    cast = f"(SELECT id, CAST(a_id AS BIGINT) AS a_id FROM {name}_b)"
    text = joined.format("b.a_id").replace(f"{name}_b b", f"{cast} b")
    assert len(shared_lake.sql(f"SELECT a.id FROM {text}").to_arrow()) == 0
