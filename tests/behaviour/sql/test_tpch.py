"""The 22 queries of TPC-H over tables of both formats give DuckDB's own answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from duckdb_extensions import import_extension

import lakeward as lw
from lakeward.integrations import ibis

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("tpch")]
TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")


_FULL = [pytest.mark.full, pytest.mark.timeout(1800)]


@pytest.fixture(
    scope="module",
    params=[pytest.param(0.01, id="short"), pytest.param(1, id="full", marks=_FULL)],
)
def answers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[lw.Lake, Any]:
    """A lake with half of the tables in each format, and DuckDB with the same rows."""
    import_extension("tpch")
    connection = duckdb.connect()
    connection.execute("LOAD tpch")
    connection.execute(f"CALL dbgen(sf = {request.param})")
    lake = lw.open(tmp_path_factory.mktemp("tpch") / "lake")
    for n, name in enumerate(TABLES):
        rows = connection.execute(f"SELECT * FROM {name}").to_arrow_table()
        table = lake.create(name, like=rows, format=("delta", "iceberg")[n % 2])
        for start in range(0, rows.num_rows, rows.num_rows // 3 + 1):
            table.append(rows.slice(start, rows.num_rows // 3 + 1))
    return lake, connection


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
@pytest.mark.parametrize("way", ["lake.sql", "ibis"])
def test_every_query_has_the_answer_of_duckdb(
    answers: tuple[lw.Lake, Any], engine: str, way: str
) -> None:
    lake, connection = answers
    if way == "lake.sql":
        _check(connection, lambda query: lake.sql(query, engine=engine).to_arrow())
        return
    with ibis.connect(lake, engine=engine) as con:
        _check(connection, lambda query: con.sql(query).to_pyarrow())


def _check(connection: Any, run: Callable[[str], pa.Table]) -> None:
    queries = connection.execute("SELECT query_nr, query FROM tpch_queries()").fetchall()
    assert len(queries) == 22
    for number, text in queries:
        wanted = connection.execute(text).fetchall()
        found = run(text.rstrip().rstrip(";"))
        rows = list(zip(*(c.to_pylist() for c in found.columns), strict=True))
        assert len(rows) == len(wanted), number
        for one, other in zip(rows, wanted, strict=True):
            assert all(map(_alike, one, other)), (number, one, other)


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, float | Decimal) and isinstance(other, float | Decimal):
        return math.isclose(float(one), float(other), rel_tol=1e-4)
    return bool(one == other)


def test_files_are_left_to_the_engine_where_they_are_plain(answers: tuple[lw.Lake, Any]) -> None:
    from lakeward.engines.sql.source import PlainFiles
    from lakeward.read.sources import plain_files

    lake, _ = answers
    for name in TABLES:
        snapshot = lake.table(name).at()
        found = plain_files(snapshot, snapshot.plan())
        assert isinstance(found, PlainFiles), found
        assert all(Path(p).exists() for p in found.paths)
