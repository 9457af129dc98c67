"""Joins on DataFusion whose rows are wrong if it swaps the tables of a join."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

import lakeward as lw

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
    "SELECT count(*) FROM {big} WHERE k IN (SELECT k FROM {small})": [5],
    "SELECT count(*) FROM {small} s WHERE NOT EXISTS (SELECT 1 FROM {big} b WHERE b.k = s.k)": [5],
    "SELECT count(*) FROM {small} s WHERE (SELECT max(b.k) FROM {big} b WHERE b.k = s.k) IS NULL": [
        5
    ],
}
_TABLES: dict[str, dict[str, Sequence[int]]] = {
    "small": {"k": range(10), "x": [1] * 10},
    "big": {"k": range(5, 3000), "x": [2] * 2995},
    "one": {"k": [0], "x": [2]},
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
