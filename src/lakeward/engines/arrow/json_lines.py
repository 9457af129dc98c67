"""Reads newline-delimited JSON as Arrow: one object per line, by a schema.

A field that a line lacks is null; a field that the schema lacks is an error. Dates and timestamps
are ISO 8601 text, decimals are numbers or text, maps are objects. Floats that are no numbers are
the texts `NaN`, `Infinity` and `-Infinity`. A timestamp without a zone is read as UTC if the column
has a zone.
"""

from __future__ import annotations

import codecs
import difflib
import io
import json
import re
from collections.abc import Iterator
from typing import Final

import orjson
import pyarrow as pa
import pyarrow.json as pj

from lakeward.engines.arrow.fit import misfit
from lakeward.engines.arrow.json_maps import Rewriting
from lakeward.engines.arrow.json_values import converted, readable
from lakeward.engines.arrow.plain import neutral
from lakeward.errors import InvalidInput, LakewardError, SchemaMismatch

_SHOWN: Final = 80
_DECODER: Final = json.JSONDecoder()
_NO_OBJECT: Final = re.compile(rb"\n[ \t\r\v\f]*[^\s{]")


class JsonLines:
    """Parses lines as rows of a schema."""

    def __init__(self, schema: pa.Schema, table: str) -> None:
        self._schema = schema
        self._table = table
        self._options = {wide: _options(schema, wide=wide) for wide in (False, True)}
        self._rewriting = Rewriting(schema)

    def table(self, lines: bytes, *, path: str | None = None, before: int = 0) -> pa.Table:
        """Parse whole lines as rows; errors have line numbers, counted from `before` + 1."""
        if not lines.strip():
            return self._schema.empty_table()
        try:
            return self._read(lines)
        except (pa.ArrowException, ValueError, LakewardError) as error:
            raise self._found(lines, error, path, before) from error

    def _read(self, lines: bytes) -> pa.Table:
        check_objects(lines)
        text = self._rewriting.rewritten(lines)
        reading = pj.ReadOptions(use_threads=False, block_size=len(text) + 1)
        found = pj.read_json(io.BytesIO(text), reading, self._options[b"Infinity" in text])
        found.validate(full=True)  # The reader does not check that text is UTF-8.
        begun = lines.count(b"\n{") + lines.removeprefix(codecs.BOM_UTF8).startswith(b"{")
        if found.num_rows > begun:
            check_objects(b"\n".join(_values(lines)))
        return pa.table({f.name: _converted(found.column(f.name), f.type) for f in self._schema})

    def _found(self, lines: bytes, error: Exception, path: str | None, before: int) -> InvalidInput:
        """Return the error for the first line that does not fit."""
        for number, line in enumerate(lines.splitlines(keepends=True), start=before + 1):
            try:
                if line.strip():
                    self._read(line)
            except (pa.ArrowException, ValueError, LakewardError) as found:
                return self._wrong(line, found, number, path)
        what = f"Some lines do not fit {self._table}: {error}."
        return InvalidInput(what, table=self._table, line=before + 1)

    def _wrong(self, line: bytes, error: Exception, number: int, path: str | None) -> InvalidInput:
        """Return the error for a line that does not fit, with what is wrong in it."""
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


def _options(schema: pa.Schema, *, wide: bool) -> pj.ParseOptions:
    fields = [f.with_type(readable(f.type, wide=wide)).with_nullable(True) for f in schema]
    return pj.ParseOptions(
        explicit_schema=pa.schema(fields),
        newlines_in_values=False,
        unexpected_field_behavior="error",
    )


def check_objects(lines: bytes) -> None:
    """Raise `ValueError` if a line begins with anything but an object.

    pyarrow reads `null` as a row of nulls, and crashes if it is the first line.
    """
    first = lines.removeprefix(codecs.BOM_UTF8).lstrip()
    if (first and not first.startswith(b"{")) or _NO_OBJECT.search(lines):
        message = "a line is no JSON object"
        raise ValueError(message)


def _values(lines: bytes) -> Iterator[bytes]:
    """Yield the values in lines, which may have several each, as JSON."""
    for line in lines.decode("utf-8-sig").split("\n"):
        rest = line.strip()
        while rest:
            _, end = _DECODER.raw_decode(rest)
            yield rest[:end].encode()
            rest = rest[end:].lstrip()


def _converted(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([converted(chunk, kind) for chunk in column.chunks], kind)
