"""Queries whose result depends on rows that a condition excludes, or on more rows than a limit.

Each gives what the engine makes of the same rows in tables of its own.
"""

from __future__ import annotations

import math
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from datafusion import SessionContext

import lakeward as lw

pytestmark = pytest.mark.xdist_group("pruned")
_NAN, _INF = math.nan, math.inf
_FLOATS = [_NAN, 1.0, None, -1.0, 0.0, -0.0, _INF, -_INF, 3.5, _NAN]


def _tables() -> dict[str, pa.Table]:
    keys = pa.array(range(40), pa.int64())
    spread = pa.array([(7 * n) % 40 for n in range(40)], pa.int64())
    tags = pa.array([[] if n < 30 else [n] for n in range(40)], pa.list_(pa.int64()))
    floats = {
        "k": pa.array(range(10), pa.int64()),
        "v": pa.array(_FLOATS, pa.float64()),
        "f": pa.array(_FLOATS[::-1], pa.float32()),
        "w": pa.array(_FLOATS[3:] + _FLOATS[:3], pa.float64()),
        "i": pa.array([5, None] * 5, pa.int32()),
        "b": pa.array([True, False, None, True, False] * 2),
        "st": pa.array([{"x": v} for v in _FLOATS], pa.struct([("x", pa.float64())])),
        "ts": pa.array([n * 10**6 for n in range(10)], pa.timestamp("us", "UTC")),
    }
    return {
        "t": pa.table({"k": keys, "i": spread, "tags": tags}),
        "u": pa.table({"k": keys, "i": pa.array(range(40, 80), pa.int64())}),
        "fl": pa.table(floats),
    }


@pytest.fixture(scope="module")
def queried(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run a text: by the lake on an engine, and by the engine on tables of its own."""
    lake = lw.open(tmp_path_factory.mktemp("pruned") / "lake")
    own, context = duckdb.connect(), SessionContext()
    for name, rows in _tables().items():
        table = lake.create(name, like=rows)
        for first in range(0, rows.num_rows, 10):
            table.append(rows.slice(first, 10))
        own.register("given", rows)
        own.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
        context.from_arrow(rows, name=name)
    return {
        "lake": lambda text, engine: _rows(lake.sql(text, engine=engine).to_arrow()),
        "duckdb": lambda text: _rows(own.execute(text).to_arrow_table()),
        "datafusion": lambda text: _rows(pa.table(context.sql(text))),
    }


def _rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, zip(*(c.to_pylist() for c in table.columns), strict=True)))


@pytest.mark.parametrize(
    "text",
    [
        # The nearest row may be one that the condition excludes.
        "SELECT a.k, b.i FROM t a ASOF JOIN t b ON a.k >= b.i WHERE b.k < 10",
        "SELECT b.k, a.i FROM t a POSITIONAL JOIN u b WHERE b.k > 20",
        # The names are those of other columns.
        "SELECT a.k FROM t AS a(i, k) WHERE a.k = 35",
        # These are aggregates, and a limit of one row needs all of them.
        "SELECT mad(k) FROM t LIMIT 1",
        "SELECT histogram(k) FROM t LIMIT 1",
        "SELECT k FROM t ORDER BY k LIMIT 20%",
        # The order is by the column with the new name.
        "SELECT * RENAME (i AS k, k AS i) FROM t ORDER BY k LIMIT 3",
    ],
)
def test_rows_that_conditions_exclude_still_count_in_duckdb(
    queried: dict[str, Any], text: str
) -> None:
    assert queried["lake"](text, "duckdb") == queried["duckdb"](text)


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_the_first_rows_by_a_column_that_the_query_replaces(
    queried: dict[str, Any], engine: str
) -> None:
    text = "SELECT * REPLACE (-k AS k) FROM t ORDER BY k LIMIT 3"
    assert queried["lake"](text, engine) == queried[engine](text)


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_a_row_that_becomes_none_does_not_count_for_a_limit(
    queried: dict[str, Any], engine: str
) -> None:
    text = "SELECT unnest(tags) AS tag FROM t LIMIT 5"
    assert len(queried["lake"](text, engine)) == 5
    assert queried["lake"]("SELECT T.k FROM T WHERE T.K = 3", engine) == ["(3,)"]


_CONDITIONS = (
    "v >= v",
    "v < w",
    "NOT (v >= w)",
    "f > 3",
    "v IN (1.0, 0.0)",
    "f IN (1.0, 3.5) AND v > 0",
    "st.x > 3",
    "(v > 3) = (w > 3)",
    "i IN (5, NULL) AND v > 0",
    "i NOT IN (4, NULL) AND v > 0",
    "v = w AND b",
    "v = 'NaN'",
    "v IN (SELECT w FROM fl)",
    "NOT (v > 3 OR i = 5)",
)


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_nan_is_compared_as_the_engine_does(queried: dict[str, Any], engine: str) -> None:
    for condition in _CONDITIONS:
        text = f"SELECT k FROM fl WHERE {condition}"
        assert queried["lake"](text, engine) == queried[engine](text), condition


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_tables_that_lakeward_reads_are_joined_by_timestamps(
    queried: dict[str, Any], engine: str
) -> None:
    """DuckDB passes the timestamps of the smaller side to the dataset of the other one."""
    for text in (
        "SELECT a.k, b.k FROM fl a JOIN fl b ON a.ts = b.ts WHERE b.k < 3",
        "SELECT k FROM fl WHERE ts IN (SELECT ts FROM fl WHERE k > 6)",
    ):
        assert queried["lake"](text, engine) == queried[engine](text), text


@pytest.mark.timeout(60)
def test_more_scans_than_arrow_has_threads_end(queried: dict[str, Any]) -> None:
    joins = " ".join(f"JOIN fl j{n} ON j{n}.k = a.k AND j{n}.v >= j{n}.v" for n in range(6))
    text = f"SELECT a.k FROM fl a {joins}"
    assert queried["lake"](text, "datafusion") == queried["datafusion"](text)
