"""Queries over many files, and TPC-H, without Spark.

Selective queries run over one Delta table of many files, each a range of ids: `lake.sql`,
`to_dataset` and `scan_polars` skip files in the log, and deltalake's query engine reads the
published log of the same table; pyiceberg reads the metadata of an Iceberg table of the same rows,
for conditions; it has no order, so for the first rows it reads all rows, which are then sorted.
TPC-H runs over tables of both formats, beside the same
engine over plain Parquet files of the same rows, and beside deltalake's query engine over the Delta
tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from datafusion import SessionContext
from deltalake import DeltaTable, QueryBuilder
from duckdb_extensions import import_extension
from pyiceberg.table import StaticTable

import lakeward as lw
from benchmarks.result import Claim, Result, Series, Settings, faster
from benchmarks.rounds import by_name, interleave, timed
from benchmarks.scratch import fresh

PER_FILE = 100
TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
THEIRS = "deltalake (query engine)"
PYICEBERG = "pyiceberg"
OF_ICEBERG = ("lake.sql (Iceberg)", "to_dataset (Iceberg)", "scan_polars (Iceberg)")


def run(settings: Settings) -> Result:
    """Selective queries, then all of TPC-H."""
    place = fresh(settings.scratch / "sql")
    series, claims, files = _selective(place / "many", settings)
    tpch, more, scale = _tpch(place / "tpch", settings)
    notes = (
        f"Selective queries over {files:,} files of {PER_FILE} rows; each opens its table anew.",
        f"TPC-H at scale factor {scale:g}: one round is all 22 queries.",
    )
    title = f"selective queries over {files:,} files, and TPC-H at {scale:g}"
    return Result("sql", title, [*series, *tpch], [*claims, *more], notes)


def _selective(place: Path, settings: Settings) -> tuple[list[Series], list[Claim], int]:
    files = settings.choose(10_000, 1_000)
    with lw.open(place) as lake:
        lake.create("t", "id int64, day int32, s string")
        lake.create("i", "id int64, day int32, s string", format="iceberg")
        for first in range(0, files, 500):
            with lake.transaction() as tx:
                for n in range(first, min(first + 500, files)):
                    tx.append("t", _rows(n))
                    tx.append("i", _rows(n))
        location, wanted = lake.table("t").location, files // 2 * PER_FILE + 7
        cases: dict[str, dict[str, Callable[[], int]]] = {
            "a point": _ways(lake, location, f"SELECT * FROM t WHERE id = {wanted}", "id", wanted),
            "a day": _ways(
                lake, location, f"SELECT * FROM t WHERE day = {files // 3}", "day", files // 3
            ),
            "a top 10": _ways_of_top(lake, location),
        }
        series: list[Series] = []
        claims = []
        for case, ways in cases.items():
            if len({way() for way in ways.values()}) != 1:
                message = f"the sides read different rows for {case}"
                raise RuntimeError(message)
            named = {f"{who}, {case}": timed(way) for who, way in ways.items()}
            series += interleave(named, rounds=settings.choose(15, 3), warm_up=1)
            times = by_name(series)
            peer = times[f"{THEIRS}, {case}"]
            claims += [
                faster(f"{case}, {who}", times[f"{who}, {case}"], peer, times=5)
                for who in ways
                if who not in (THEIRS, PYICEBERG, *OF_ICEBERG)
            ]
            if PYICEBERG in ways:
                peer = times[f"{PYICEBERG}, {case}"]
                claims += [
                    faster(f"{case}, {who}", times[f"{who}, {case}"], peer, times=5)
                    for who in OF_ICEBERG
                ]
    return series, claims, files


def _ways(
    lake: lw.Lake, location: str, text: str, column: str, value: int
) -> dict[str, Callable[[], int]]:
    ways = _ways_of_sql(lake, location, text)
    kept, of_polars = pc.field(column) == value, pl.col(column) == value
    iceberg = lake.table("i")
    for table, suffix in ((lake.table("t"), ""), (iceberg, " (Iceberg)")):
        ways[f"to_dataset{suffix}"] = partial(_from_dataset, table, kept)
        ways[f"scan_polars{suffix}"] = partial(_from_polars, table, of_polars)
    metadata = str(iceberg.metadata_location)
    ways[PYICEBERG] = lambda: int(
        StaticTable.from_metadata(metadata).scan(f"{column} = {value}").to_arrow().num_rows
    )
    return ways


def _ways_of_top(lake: lw.Lake, location: str) -> dict[str, Callable[[], int]]:
    """The rows with the ten largest ids."""
    ways = _ways_of_sql(lake, location, "SELECT * FROM t ORDER BY id DESC LIMIT 10")
    for table, suffix in ((lake.table("t"), ""), (lake.table("i"), " (Iceberg)")):
        ways[f"to_dataset{suffix}"] = partial(_top_of_dataset, table)
        ways[f"scan_polars{suffix}"] = partial(_top_of_polars, table)
    metadata, order = str(lake.table("i").metadata_location), [("id", "descending")]
    ways[PYICEBERG] = lambda: int(
        StaticTable.from_metadata(metadata).scan().to_arrow().sort_by(order).slice(0, 10).num_rows
    )
    return ways


def _ways_of_sql(lake: lw.Lake, location: str, text: str) -> dict[str, Callable[[], int]]:
    def theirs() -> int:
        return int(
            pa.table(QueryBuilder().register("t", DeltaTable(location)).execute(text)).num_rows
        )

    of_iceberg = text.replace(" FROM t ", " FROM i ")
    return {
        "lake.sql": lambda: len(lake.sql(text)),
        THEIRS: theirs,
        "lake.sql (Iceberg)": lambda: len(lake.sql(of_iceberg)),
    }


def _top_of_dataset(table: lw.Table) -> int:
    return int(table.to_dataset().sort_by([("id", "descending")]).head(10).num_rows)


def _top_of_polars(table: lw.Table) -> int:
    return int(table.scan_polars(order_by="id DESC").head(10).collect().height)


def _from_dataset(table: lw.Table, kept: pc.Expression) -> int:
    return int(table.to_dataset().to_table(filter=kept).num_rows)


def _from_polars(table: lw.Table, kept: pl.Expr) -> int:
    return int(table.scan_polars().filter(kept).collect().height)


def _rows(n: int) -> pa.Table:
    ids = pa.array(range(n * PER_FILE, (n + 1) * PER_FILE), pa.int64())
    day = pa.array([n] * PER_FILE, pa.int32())
    return pa.table({"id": ids, "day": day, "s": ids.cast(pa.string())})


def _tpch(place: Path, settings: Settings) -> tuple[list[Series], list[Claim], float]:
    scale = settings.choose(100, 5) / 100
    import_extension("tpch")
    source = duckdb.connect()
    source.execute("LOAD tpch")
    source.execute(f"CALL dbgen(sf = {scale})")
    queries = [
        q.rstrip().rstrip(";")
        for (q,) in source.execute("SELECT query FROM tpch_queries()").fetchall()
    ]
    plain = place / "plain"
    plain.mkdir(parents=True)
    with lw.open(place / "delta") as delta, lw.open(place / "both") as both:
        for n, name in enumerate(TABLES):
            rows = source.execute(f"SELECT * FROM {name}").to_arrow_table()
            pq.write_table(rows, plain / f"{name}.parquet")
            delta.create(name, like=rows).append(rows)
            both.create(name, like=rows, format=("delta", "iceberg")[n % 2]).append(rows)
        runs: dict[str, Callable[[str], Any]] = {
            "lake.sql (DataFusion)": both.sql,
            "DataFusion on Parquet": _datafusion(plain),
            "lake.sql (DuckDB)": lambda q: both.sql(q, engine="duckdb"),
            "DuckDB on Parquet": _duckdb(plain),
            THEIRS: _deltalake(delta),
        }
        check_answers(queries, runs)
        ways = {who: partial(_each, queries, one) for who, one in runs.items()}
        named = {f"{who}, TPC-H": timed(way) for who, way in ways.items()}
        series = interleave(named, rounds=settings.choose(5, 1), warm_up=1)
    times = by_name(series)
    ours = times["lake.sql (DataFusion), TPC-H"]
    claims = [
        faster(
            "TPC-H on DataFusion, beside plain Parquet",
            ours,
            times["DataFusion on Parquet, TPC-H"],
            times=1 / 1.2,
        ),
        faster(
            "TPC-H on DuckDB, beside plain Parquet",
            times["lake.sql (DuckDB), TPC-H"],
            times["DuckDB on Parquet, TPC-H"],
            times=1 / 1.2,
        ),
        faster("TPC-H, beside deltalake", ours, times[f"{THEIRS}, TPC-H"], times=1),
    ]
    return series, claims, scale


def check_answers(queries: Iterable[str], runs: Mapping[str, Callable[[str], Any]]) -> None:
    """Raise `RuntimeError` if the sides return different numbers of rows for a query."""
    for query in queries:
        counts = {who: len(one(query)) for who, one in runs.items()}
        if len(set(counts.values())) != 1:
            message = f"the sides have different answers, {counts}, to: {query}"
            raise RuntimeError(message)


def _each(queries: Iterable[str], run_one: Callable[[str], Any]) -> None:
    for query in queries:
        len(run_one(query))


def _datafusion(plain: Path) -> Callable[[str], Any]:
    context = SessionContext()
    for name in TABLES:
        context.register_parquet(name, str(plain / f"{name}.parquet"))
    return lambda q: pa.table(context.sql(q))


def _duckdb(plain: Path) -> Callable[[str], Any]:
    connection = duckdb.connect()
    for name in TABLES:
        path = str(plain / f"{name}.parquet").replace("'", "''")
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{path}')")
    return lambda q: connection.execute(q).to_arrow_table()


def _deltalake(lake: lw.Lake) -> Callable[[str], Any]:
    builder = QueryBuilder()
    for name in TABLES:
        builder = builder.register(name, DeltaTable(lake.table(name).location))
    return lambda q: pa.table(builder.execute(q))
