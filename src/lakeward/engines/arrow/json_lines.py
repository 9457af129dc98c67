"""Newline-delimited JSON as Arrow: one object a line, read by a schema.

A field that a line lacks is null; one that the schema does not have is an error. Dates and moments
are ISO 8601 text, decimals are numbers or text.
"""

from __future__ import annotations

import io
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.json as pj

from lakeward.engines.arrow.input import tables_of
from lakeward.errors import InvalidInput, LakewardError

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

    def table(self, lines: bytes) -> pa.Table:
        """Read some whole lines as rows; errors count lines from 1."""
        if not lines.strip():
            return self._schema.empty_table()
        try:
            return self._read(lines)
        except (pa.ArrowException, LakewardError, orjson.JSONDecodeError) as error:
            raise self._found(lines, error) from error

    def _read(self, lines: bytes) -> pa.Table:
        if self._plain:
            # Arrow's own reader knows no maps.
            rows = [orjson.loads(line) for line in lines.splitlines() if line.strip()]
            (found,) = tables_of(rows, self._schema, self._table)
            return found
        reading = pj.ReadOptions(use_threads=False, block_size=len(lines) + 1)
        found = pj.read_json(io.BytesIO(lines), reading, self._options)
        columns = {f.name: found.column(f.name).cast(f.type) for f in self._schema}
        return pa.table(columns)

    def _found(self, lines: bytes, error: Exception) -> InvalidInput:
        """The error for the first line that does not fit."""
        for number, line in enumerate(lines.splitlines(keepends=True), start=1):
            try:
                if line.strip():
                    self._read(line)
            except (pa.ArrowException, LakewardError, orjson.JSONDecodeError) as found:
                shown = line[:_SHOWN].decode(errors="replace").strip()
                what = f"Line {number} does not fit {self._table}: {found}."
                hint = f"It begins with {shown!r}."
                return InvalidInput(what, hint=hint, table=self._table, line=number)
        what = f"Some lines do not fit {self._table}: {error}."
        return InvalidInput(what, table=self._table, line=1)


def _readable(kind: pa.DataType) -> pa.DataType:
    """A type that Arrow reads from JSON, and that becomes the wanted one without loss."""
    types = pa.types
    if types.is_date(kind):
        return pa.timestamp("s")
    if types.is_struct(kind):
        return pa.struct([_field(f) for f in kind])
    if types.is_list(kind):
        return pa.list_(_field(kind.value_field))
    return kind


def _field(source: Any) -> pa.Field:
    return source.with_type(_readable(source.type)).with_nullable(True)


def _has_map(kind: pa.DataType) -> bool:
    types = pa.types
    if types.is_map(kind):
        return True
    if types.is_struct(kind):
        return any(_has_map(f.type) for f in kind)
    return bool(types.is_list(kind) and _has_map(kind.value_type))
