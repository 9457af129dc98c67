"""A stranger: reads a published table of either format, knowing nothing of Lakeward.

Run as a script by any Python that has the engine: `reader.py ENGINE PLACE COLUMN...`, where PLACE
is a directory, a metadata file or, for pyiceberg, a database and a table with `#` between. It
answers with one JSON object: the engine's version and the rows. It imports nothing of ours.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

Rows = list[Sequence[Any]]


def with_deltalake(place: str, columns: str) -> tuple[str, Rows]:
    """Read a Delta table with delta-rs and DataFusion."""
    deltalake, pa = import_module("deltalake"), import_module("pyarrow")
    engine = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(place))
    found = pa.table(engine.execute(f"SELECT {columns} FROM t"))
    return deltalake.__version__, _rows(found)


def with_duckdb_delta(place: str, columns: str) -> tuple[str, Rows]:
    """Read a Delta table with DuckDB's delta extension."""
    return _duckdb(["delta"], f"SELECT {columns} FROM delta_scan(?)", place)


def with_duckdb_iceberg(place: str, columns: str) -> tuple[str, Rows]:
    """Read an Iceberg table with DuckDB's iceberg extension."""
    sql = f"SELECT {columns} FROM iceberg_scan(?)"
    return _duckdb(["avro", "iceberg"], sql, place)


def with_pyiceberg(place: str, columns: str) -> tuple[str, Rows]:
    """Read an Iceberg table with pyiceberg, through the lake's store as a catalog."""
    sql, pyiceberg = import_module("pyiceberg.catalog.sql"), import_module("pyiceberg")
    uri, table = place.split("#")
    catalog = sql.SqlCatalog("lakeward", uri=uri)
    names = tuple(c.strip() for c in columns.split(","))
    found = catalog.load_table(table).scan(selected_fields=names).to_arrow().select(names)
    catalog.close()
    return pyiceberg.__version__, _rows(found)


READERS: Final[dict[str, Callable[[str, str], tuple[str, Rows]]]] = {
    "deltalake": with_deltalake,
    "DuckDB delta": with_duckdb_delta,
    "DuckDB iceberg": with_duckdb_iceberg,
    "pyiceberg": with_pyiceberg,
}


def _duckdb(extensions: list[str], sql: str, place: str) -> tuple[str, Rows]:
    duckdb = import_module("duckdb")
    connection = duckdb.connect()
    for name in extensions:
        home = import_module(f"duckdb_extension_{name}").__path__[0]
        (file,) = Path(home).rglob(f"{name}.duckdb_extension")
        connection.execute(f"LOAD '{file}'")
    return duckdb.__version__, connection.execute(sql, [place]).fetchall()


def _rows(found: Any) -> Rows:
    return list(zip(*(c.to_pylist() for c in found.columns), strict=True))


def main(engine: str, place: str, *columns: str) -> None:
    """Read and answer; a missing engine is an answer too."""
    try:
        version, rows = READERS[engine](place, ", ".join(columns))
        answer: dict[str, Any] = {"version": version, "rows": rows}
    except ModuleNotFoundError as error:
        answer = {"absent": str(error)}
    sys.stdout.write(json.dumps(answer, default=str))


if __name__ == "__main__":
    main(*sys.argv[1:])
