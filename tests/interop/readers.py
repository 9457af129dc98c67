"""Readers of Delta tables that are not ours, each behind one call."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

PEERS_PYTHON = Path(__file__).parents[2] / ".venv-peers" / "bin" / "python"
_WORKER = Path(__file__).with_name("duckdb_worker.py")


class Reader(Protocol):
    """Somebody who reads published tables."""

    def rows(
        self, location: str, *, version: int | None = None, where: str | None = None
    ) -> pa.Table:
        """The rows of a table, of a version, for which a condition holds."""


class DeltaRs:
    """delta-rs with DataFusion."""

    def rows(
        self, location: str, *, version: int | None = None, where: str | None = None
    ) -> pa.Table:
        """The rows by `QueryBuilder`."""
        table = DeltaTable(location, version=version)
        sql = f"SELECT * FROM t WHERE {where}" if where else "SELECT * FROM t"
        return pa.table(QueryBuilder().register("t", table).execute(sql))


class Polars:
    """Polars' own reader of Delta tables."""

    def rows(
        self, location: str, *, version: int | None = None, where: str | None = None
    ) -> pa.Table:
        """The rows by `scan_delta`."""
        frame = pl.scan_delta(location, version=version)
        if where:
            frame = frame.filter(pl.sql_expr(where))
        return frame.collect().to_arrow()


class DuckDb:
    """DuckDB's delta extension, in a process of its own under `.venv-peers`.

    Args:
        scratch: A directory for its extensions, its home and its answers.
    """

    def __init__(self, scratch: Path) -> None:
        self._target = scratch / "answer.arrow"
        (scratch / "extensions").mkdir()
        self._process = subprocess.Popen(
            [PEERS_PYTHON, _WORKER, scratch / "extensions"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "HOME": str(scratch)},
        )

    def rows(
        self, location: str, *, version: int | None = None, where: str | None = None
    ) -> pa.Table:
        """The rows by `delta_scan`."""
        at = "" if version is None else f", version => {version}"
        condition = f" WHERE {where}" if where else ""
        path = location.replace("'", "''")
        return self.query(f"SELECT * FROM delta_scan('{path}'{at}){condition}")

    def query(self, sql: str) -> pa.Table:
        """The rows of any query."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"sql": sql, "target": str(self._target)}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert "error" not in answer, answer["error"]
        with pa.OSFile(str(self._target)) as source:
            return pa.ipc.open_file(source).read_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(30)


def as_ours(found: pa.Table, schema: pa.Schema) -> pa.Table:
    """A stranger's rows in the lake's types: each engine names some of them in its own way."""
    assert found.column_names == schema.names
    columns = [_cast(found[f.name], f.type) for f in schema]
    return pa.table(columns, schema=pa.schema([pa.field(f.name, f.type) for f in schema]))


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_nested(kind):
        # Values by way of Python: casts between spellings of nested types are not all there.
        return pa.chunked_array([pa.array(column.to_pylist(), kind)])
    return column.cast(kind)
