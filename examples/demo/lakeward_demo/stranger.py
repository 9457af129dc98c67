"""A stranger: reads, or tries to write, a published table, knowing nothing of Lakeward.

Run as a script by any Python that has the engine: `stranger.py read|write ENGINE LOCATION`. It
answers with one JSON object. It imports nothing of ours, and the engines by name, so that it
belongs to no layer.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

COLUMNS: Final = ["id", "sku", "quantity", "cents", "country"]
_SQL: Final = f"SELECT {', '.join(COLUMNS)} FROM "


def digest(rows: Iterable[Mapping[str, Any]]) -> str:
    """A checksum of the rows, whatever order they come in."""
    lines = sorted(json.dumps([row[name] for name in COLUMNS]) for row in rows)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def read_deltalake(location: str) -> tuple[str, list[dict[str, Any]]]:
    """Read with delta-rs and DataFusion."""
    deltalake, pa = import_module("deltalake"), import_module("pyarrow")
    engine = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(location))
    return deltalake.__version__, pa.table(engine.execute(f"{_SQL} t")).to_pylist()


def read_polars(location: str) -> tuple[str, list[dict[str, Any]]]:
    """Read with Polars' own Parquet reader."""
    import_module("deltalake")
    polars = import_module("polars")
    return polars.__version__, polars.scan_delta(location).select(COLUMNS).collect().to_dicts()


def read_duckdb(location: str) -> tuple[str, list[dict[str, Any]]]:
    """Read with DuckDB's delta extension, loaded from its wheel."""
    extension = import_module("duckdb_extension_delta")
    duckdb = import_module("duckdb")
    (file,) = Path(extension.__path__[0]).rglob("delta.duckdb_extension")
    connection = duckdb.connect()
    connection.execute(f"LOAD '{file}'")
    rows = connection.execute(f"{_SQL} delta_scan(?)", [location]).fetchall()
    return duckdb.__version__, [dict(zip(COLUMNS, row, strict=True)) for row in rows]


READERS: Final[dict[str, Callable[[str], tuple[str, list[dict[str, Any]]]]]] = {
    "deltalake": read_deltalake,
    "Polars": read_polars,
    "DuckDB": read_duckdb,
}


def read(engine: str, location: str) -> dict[str, Any]:
    """What an engine reads: its version, how many rows, and their checksum."""
    version, rows = READERS[engine](location)
    return {"version": version, "rows": len(rows), "digest": digest(rows)}


def write(engine: str, location: str) -> dict[str, Any]:
    """Try to append a row past the lake."""
    deltalake, pa = import_module(engine), import_module("pyarrow")
    row = {"id": 9999, "sku": "stone", "quantity": 1, "cents": 1, "country": "PT"}
    try:
        deltalake.write_deltalake(location, pa.Table.from_pylist([row]), mode="append")
    except deltalake.exceptions.DeltaError as error:
        return {"refused": str(error)}
    return {"written": 1}


def main(task: str, engine: str, location: str) -> None:
    """Do it and answer; a missing engine is an answer too."""
    try:
        answer = {"read": read, "write": write}[task](engine, location)
    except ModuleNotFoundError as error:
        answer = {"absent": str(error)}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
