"""Random queries give what the same engine makes of the same rows in memory.

Both engines run over the tables of a lake, where the log skips files and filters reach Lakeward's
reader, and over tables of their own that hold the same rows.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from datafusion import SessionConfig, SessionContext

import lakeward as lw
from lakeward.errors import InvalidInput, UnsupportedFeature
from tests.property.queries import TRAVEL, Queries, make_tables
from tests.support.sizes import sizes

pytestmark = pytest.mark.slow
_NOT_PASSED = "can't be an Arrow Scan Pushdown Filter"
"""What DuckDB says of IS NOT DISTINCT FROM over any dataset of Arrow."""
_SKIPPED = 0.2
"""At most this part of the queries may be refused by the engine that is compared."""


@sizes("count", short=40, full=3000)
def test_random_queries_have_the_answers_of_the_engine_itself(tmp_path: Path, count: int) -> None:
    with lw.open(tmp_path / "lake") as lake:
        held = make_tables(lake, random.Random(20))
        engines = {"duckdb": _duckdb(held), "datafusion": _datafusion(held)}
        refused = 0
        queries = Queries(seed=20)
        for number in range(count):
            text = queries.query()
            for engine, run in engines.items():
                try:
                    wanted = _rows(run(text))
                except Exception:  # noqa: BLE001  what an engine cannot plan, it cannot compare
                    refused += 1
                    continue
                try:
                    found = _rows(lake.sql(_of_lake(text), engine=engine).to_arrow())
                except InvalidInput as error:
                    known = isinstance(error, UnsupportedFeature) or _NOT_PASSED in str(error)
                    if not known:
                        raise
                    refused += 1
                    continue
                if found != wanted and engine == "datafusion":
                    # DataFusion has errors of its own in outer joins of tables in memory.
                    wanted = _rows(engines["duckdb"](text))
                assert found == wanted, (number, engine, text)
        assert refused <= _SKIPPED * 2 * count


@sizes("count", short=40, full=1500)
def test_random_joins_on_datafusion_have_the_answers_of_duckdb(tmp_path: Path, count: int) -> None:
    """All tables have the same names of columns, which DataFusion's filters must not confuse."""
    with lw.open(tmp_path / "lake") as lake:
        known, queries = _duckdb(make_tables(lake, random.Random(20))), Queries(seed=1)
        refused = 0
        for number in range(count):
            text = queries.joins()
            try:
                found = _rows(lake.sql(_of_lake(text)).to_arrow())
            except UnsupportedFeature:
                refused += 1
                continue
            assert found == _rows(known(text)), (number, text)
        assert refused <= _SKIPPED * count


@sizes("count", short=20, full=500)
def test_filters_that_an_engine_passes_down_have_its_meaning(tmp_path: Path, count: int) -> None:
    """In `lake.duckdb()` no file is planned before, so that datasets get every filter as it is."""
    with lw.open(tmp_path / "lake") as lake:
        known, queries = _duckdb(make_tables(lake, random.Random(21))), Queries(seed=21)
        with lake.duckdb() as own:
            for number in range(count):
                for name in ("one", "three", "four"):
                    text = f"SELECT a.k FROM {name} a WHERE {queries.condition('a')}"
                    try:
                        found = _rows(own.execute(text).to_arrow_table())
                    except duckdb.NotImplementedException as error:
                        if _NOT_PASSED not in str(error):
                            raise
                        continue
                    assert found == _rows(known(text)), (number, text)


@sizes("count", short=12, full=600)
def test_first_rows_of_random_orders_are_those_of_a_full_sort(tmp_path: Path, count: int) -> None:
    """Through datasets and lazy frames, beside the sorts of pyarrow and of Polars."""
    rng = random.Random(22)
    with lw.open(tmp_path / "lake") as lake:
        held = make_tables(lake, rng)
        for number in range(count):
            name = rng.choice(["one", "two", "three", "four", "many"])
            table = lake.table(name)
            whole = table.to_arrow()
            assert _rows(whole.select(held[name].column_names)) == _rows(held[name])
            keys = rng.sample("kisdvfnb", rng.randrange(1, 4)) + rng.choice([[], ["ts"]])
            ends = [(key, rng.random() < 0.5, rng.random() < 0.5) for key in keys]
            most, least = rng.choice([0, 1, 3, 10, 40, 1000]), rng.randrange(80)
            sorting = [
                (key, "descending" if down else "ascending", "at_end" if last else "at_start")
                for key, down, last in ends
            ]
            kept = pc.field("k") < least if rng.random() < 0.5 else None
            wanted = (whole if kept is None else whole.filter(kept)).sort_by(sorting)
            found = table.to_dataset().sort_by(sorting).head(most, filter=kept)
            assert repr(found.to_pylist()) == repr(wanted.slice(0, most).to_pylist()), (
                number,
                name,
                sorting,
                kept,
            )
            frame = (
                table.to_polars() if kept is None else table.to_polars().filter(pl.col("k") < least)
            )
            first = frame.sort(
                keys,
                descending=[down for _, down, _ in ends],
                nulls_last=[last for _, _, last in ends],
                maintain_order=True,
            ).head(most)
            order = ", ".join(
                f"{key} {'DESC' if down else 'ASC'} NULLS {'LAST' if last else 'FIRST'}"
                for key, down, last in ends
            )
            where = None if kept is None else f"k < {least}"
            lazy = table.scan_polars(order_by=order, where=where)
            assert lazy.head(most).collect().equals(first), (number, name, order, where, most)
            lazy = table.scan_polars(order_by=order, where=where, limit=most)
            assert lazy.collect().equals(first), (number, name, order, where, most)


def _of_lake(text: str) -> str:
    for name, travel in TRAVEL.items():
        text = re.sub(rf"\b{name}\b", travel, text)
    return text


def _duckdb(held: dict[str, pa.Table]) -> Callable[[str], pa.Table]:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for name, rows in held.items():
        connection.register("given", rows)
        # A table of DuckDB's own: of an Arrow table it leaves filters to Arrow, NaN included.
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
    return lambda text: connection.execute(text).to_arrow_table()


def _datafusion(held: dict[str, pa.Table]) -> Callable[[str], pa.Table]:
    # With these it loses rows of joins, also of tables in memory.
    off = {"join_reordering": "false", "enable_dynamic_filter_pushdown": "false"}
    settings = {f"datafusion.optimizer.{name}": value for name, value in off.items()}
    context = SessionContext(SessionConfig({"datafusion.execution.time_zone": "UTC", **settings}))
    for name, rows in held.items():
        context.from_arrow(rows, name=name)
    return lambda text: pa.table(context.sql(text))


def _rows(table: pa.Table) -> list[str]:
    columns = (column.to_pylist() for column in table.columns)
    return sorted(repr(tuple(map(_plain, row))) for row in zip(*columns, strict=True))


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value == 0:
        return 0.0  # sorting loses the sign in DuckDB
    return value.astimezone(UTC) if isinstance(value, datetime) else value
