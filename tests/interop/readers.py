"""Readers of Delta tables that are not ours, each behind one call."""

from __future__ import annotations

import json
import operator
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import polars as pl
import pyarrow as pa
from datafusion import SessionContext
from deltalake import DeltaTable, QueryBuilder

from lakeward.model.closing import Closing

PEERS_PYTHON = Path(__file__).parents[2] / ".venv-peers" / "bin" / "python"
_WORKER = Path(__file__).with_name("duckdb_worker.py")


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of the column `x`, which each reader says in its own words."""

    operator: str
    value: Any
    kind: pa.DataType


class Reader(Protocol):
    """Somebody who reads published tables."""

    def rows(self, location: str, *, version: int | None = None) -> pa.Table:
        """The rows of a table, of a version."""

    def ids(self, location: str, comparison: Comparison) -> list[int]:
        """The ids of rows that match, files being skipped as the reader sees fit."""

    def ids_of(self, rows: pa.Table, comparison: Comparison) -> list[int]:
        """The same by the reader's own rules, from rows in memory where nothing can be skipped."""


class DeltaRs:
    """delta-rs with DataFusion."""

    def rows(self, location: str, *, version: int | None = None) -> pa.Table:
        """The rows by `QueryBuilder`."""
        return self.query(location, "SELECT * FROM t", version)

    def ids(self, location: str, comparison: Comparison) -> list[int]:
        """The ids by `QueryBuilder`."""
        return _sorted(self.query(location, _select(_datafusion(comparison))))

    def ids_of(self, rows: pa.Table, comparison: Comparison) -> list[int]:
        """The ids by DataFusion."""
        context = SessionContext()
        context.from_arrow(rows, name="t")
        return _sorted(context.sql(_select(_datafusion(comparison))).to_arrow_table())

    def query(self, location: str, sql: str, version: int | None = None) -> pa.Table:
        """The answer to a query of `t`."""
        table = DeltaTable(location, version=version)
        return pa.table(QueryBuilder().register("t", table).execute(sql))


class Polars:
    """Polars' own reader of Delta tables."""

    def rows(self, location: str, *, version: int | None = None) -> pa.Table:
        """The rows by `scan_delta`."""
        return pl.scan_delta(location, version=version).collect().to_arrow()

    def ids(self, location: str, comparison: Comparison) -> list[int]:
        """The ids by a lazy filter on `scan_delta`."""
        return self._filtered(pl.scan_delta(location), comparison)

    def ids_of(self, rows: pa.Table, comparison: Comparison) -> list[int]:
        """The ids by a filter on a frame."""
        frame = pl.from_arrow(rows)
        assert isinstance(frame, pl.DataFrame)
        return self._filtered(frame.lazy(), comparison)

    def _filtered(self, frame: pl.LazyFrame, comparison: Comparison) -> list[int]:
        typed = pl.from_arrow(pa.nulls(0, comparison.kind))
        assert isinstance(typed, pl.Series)
        literal = pl.lit(comparison.value, dtype=typed.dtype)
        condition = _OPERATORS[comparison.operator](pl.col("x"), literal)
        return _sorted(frame.filter(condition).select("id").collect().to_arrow())


class DuckDb(Closing):
    """DuckDB's delta extension, in a process of its own under `.venv-peers`.

    Args:
        scratch: A directory for its extensions, its home and its answers.
    """

    def __init__(self, scratch: Path) -> None:
        self._target = scratch / "answer.arrow"
        self._source = scratch / "question.arrow"
        self._held: pa.Table | None = None
        (scratch / "extensions").mkdir()
        self._process = subprocess.Popen(
            [PEERS_PYTHON, _WORKER, scratch / "extensions"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "HOME": str(scratch)},
        )

    def rows(self, location: str, *, version: int | None = None) -> pa.Table:
        """The rows by `delta_scan`."""
        at = "" if version is None else f", version => {version}"
        return self._query(f"SELECT * FROM delta_scan({_quoted(location)}{at})")

    def iceberg_rows(self, document: str, snapshot_id: int) -> pa.Table:
        """The rows of a snapshot by `iceberg_scan`."""
        source = f"iceberg_scan({_quoted(document)}, snapshot_from_id => {snapshot_id})"
        return self._query(f"SELECT * FROM {source}")

    def ids(self, location: str, comparison: Comparison) -> list[int]:
        """The ids by a filter on `delta_scan`."""
        source = f"delta_scan({_quoted(location)})"
        return _sorted(self._query(_select(_duckdb(comparison), source)))

    def ids_of(self, rows: pa.Table, comparison: Comparison) -> list[int]:
        """The ids by a filter on a table in memory."""
        if rows is not self._held:
            with (
                pa.OSFile(str(self._source), "wb") as sink,
                pa.ipc.new_stream(sink, rows.schema) as out,
            ):
                out.write_table(rows)
            self._ask({"load": str(self._source)})
            self._held = rows
        return _sorted(self._query(_select(_duckdb(comparison), "whole")))

    def _query(self, sql: str) -> pa.Table:
        self._ask({"sql": sql, "target": str(self._target)})
        with pa.OSFile(str(self._target)) as source:
            return pa.ipc.open_file(source).read_all()

    def _ask(self, request: dict[str, str]) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert "error" not in answer, answer["error"]

    def close(self) -> None:
        """Let the process end."""
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


_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _select(condition: str, source: str = "t") -> str:
    return f"SELECT id FROM {source} WHERE {condition}"


def _sorted(rows: pa.Table) -> list[int]:
    return sorted(rows["id"].to_pylist())


def _datafusion(comparison: Comparison) -> str:
    kind, value = comparison.kind, comparison.value
    if pa.types.is_timestamp(kind):
        zone = 'Some("UTC")' if kind.tz else "None"
        literal = f"arrow_cast('{_moment(value)}', 'Timestamp(Microsecond, {zone})')"
    else:
        literal = _cast_literal(kind, value)
    return f"x {comparison.operator} {literal}"


def _duckdb(comparison: Comparison) -> str:
    kind, value = comparison.kind, comparison.value
    if pa.types.is_timestamp(kind):
        name, zone = ("TIMESTAMPTZ", "+00") if kind.tz else ("TIMESTAMP", "")
        literal = f"{name} '{_moment(value)}{zone}'"
    else:
        literal = _cast_literal(kind, value)
    return f"x {comparison.operator} {literal}"


def _cast_literal(kind: pa.DataType, value: Any) -> str:
    types = pa.types
    if types.is_string(kind):
        return _quoted(value)
    if types.is_boolean(kind):
        return str(value)
    if types.is_decimal(kind):
        return f"CAST('{value:f}' AS DECIMAL({kind.precision}, {kind.scale}))"
    name = {
        pa.int8(): "TINYINT",
        pa.int16(): "SMALLINT",
        pa.int32(): "INTEGER",
        pa.int64(): "BIGINT",
        pa.float32(): "REAL",
        pa.float64(): "DOUBLE",
        pa.date32(): "DATE",
    }[kind]
    return f"CAST('{value}' AS {name})"


def _moment(value: Any) -> str:
    return str(value.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds"))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
