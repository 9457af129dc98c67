"""Newline-delimited JSON as Arrow: one object a line, read by a schema.

A field that a line lacks is null; one that the schema does not have is an error. Dates and moments
are ISO 8601 text, decimals are numbers or text. A moment without a zone is taken as UTC where the
column has a zone.
"""

from __future__ import annotations

import difflib
import io
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from lakeward.engines.arrow.fit import misfit
from lakeward.engines.arrow.plain import neutral, table_of_rows
from lakeward.errors import InvalidInput, LakewardError, SchemaMismatch

_SHOWN: Final = 80


class JsonLines:
    """Reads lines as rows of a schema."""

    def __init__(self, schema: pa.Schema, table: str) -> None:
        self._schema = schema
        self._table = table
        fields = [f.with_type(_readable(f.type)).with_nullable(True) for f in schema]
        self._options = pj.ParseOptions(
            explicit_schema=pa.schema(fields),
            newlines_in_values=False,
            unexpected_field_behavior="error",
        )
        self._plain = any(_has_map(f.type) for f in schema)

    def table(self, lines: bytes, *, path: str | None = None, before: int = 0) -> pa.Table:
        """Read some whole lines as rows; errors count lines from 1, behind `before` others."""
        if not lines.strip():
            return self._schema.empty_table()
        try:
            return self._read(lines)
        except (pa.ArrowException, ValueError, LakewardError) as error:
            raise self._found(lines, error, path, before) from error

    def _read(self, lines: bytes) -> pa.Table:
        if self._plain:
            # Arrow's own reader knows no maps.
            rows = [orjson.loads(line) for line in lines.splitlines() if line.strip()]
            return table_of_rows(rows, self._schema, self._table)
        reading = pj.ReadOptions(use_threads=False, block_size=len(lines) + 1)
        found = pj.read_json(io.BytesIO(lines), reading, self._options)
        columns = {f.name: _cast(found.column(f.name), f.type) for f in self._schema}
        return pa.table(columns)

    def _found(self, lines: bytes, error: Exception, path: str | None, before: int) -> InvalidInput:
        """The error for the first line that does not fit."""
        for number, line in enumerate(lines.splitlines(keepends=True), start=before + 1):
            try:
                if line.strip():
                    self._read(line)
            except (pa.ArrowException, ValueError, LakewardError) as found:
                return self._wrong(line, found, number, path)
        what = f"Some lines do not fit {self._table}: {error}."
        return InvalidInput(what, table=self._table, line=before + 1)

    def _wrong(self, line: bytes, error: Exception, number: int, path: str | None) -> InvalidInput:
        """What is wrong with a line."""
        where = f"line {number}" if path is None else f"line {number} of {path}"
        facts = {"line": number} if path is None else {"line": number, "path": path}
        shown = line[:_SHOWN].decode(errors="replace").strip()
        hint = f"It begins with {shown!r}."
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as broken:
            what = f"{where.capitalize()} is not JSON: {broken.msg}."
            return InvalidInput(what, hint=hint, table=self._table, **facts)
        if not isinstance(row, dict):
            what = f"{where.capitalize()} is no JSON object."
            return InvalidInput(what, hint=hint, table=self._table, **facts)
        for name, value in row.items():
            if name not in self._schema.names:
                what = f"Table {self._table} has no column {name!r}, which {where} has."
                near = difflib.get_close_matches(name, self._schema.names, 1)
                hint = f"It has {', '.join(self._schema.names)}."
                hint = f"Did you mean {near[0]!r}? {hint}" if near else hint
                return SchemaMismatch(what, hint=hint, table=self._table, column=name, **facts)
            try:
                self._read(orjson.dumps({name: value}))
            except (pa.ArrowException, ValueError, LakewardError):
                kind = neutral(self._schema.field(name).type)
                value_shown = orjson.dumps(value).decode()[:_SHOWN]
                return misfit(value_shown, kind, name, self._table, (where, facts))
        what = f"{where.capitalize()} does not fit {self._table}: {error}."
        return InvalidInput(what, hint=hint, table=self._table, **facts)


def _readable(kind: pa.DataType) -> pa.DataType:
    """A type that Arrow reads from JSON, and that becomes the wanted one without loss."""
    types = pa.types
    if types.is_date(kind):
        return pa.timestamp("s")
    if types.is_timestamp(kind) and kind.tz is None:
        # Read as a moment, text with a zone would be taken for the same wall clock in UTC.
        return pa.string()
    if types.is_struct(kind):
        return pa.struct([_field(f) for f in kind])
    if types.is_list(kind):
        return pa.list_(_field(kind.value_field))
    return kind


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    found = column.cast(kind)
    lost = pa.types.is_float32(kind) and pc.any(pc.is_inf(found)).as_py()
    cut = pa.types.is_date(kind) and pc.any(pc.not_equal(found.cast(column.type), column)).as_py()
    if lost or cut:
        message = "a value would change"
        raise ValueError(message)
    return found


def _field(source: Any) -> pa.Field:
    return source.with_type(_readable(source.type)).with_nullable(True)


def _has_map(kind: pa.DataType) -> bool:
    types = pa.types
    if types.is_map(kind):
        return True
    if types.is_struct(kind):
        return any(_has_map(f.type) for f in kind)
    return bool(types.is_list(kind) and _has_map(kind.value_type))
