"""Reads CSV as Arrow by a schema: the type of no value is guessed.

The first line has the names of the columns. An empty field is null; a quoted empty field is empty
text in a text column. Dates and timestamps are ISO 8601; a timestamp without a zone is read as UTC
if the column has a zone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

from lakeward.engines.arrow.fit import misfit
from lakeward.engines.arrow.origin import place, placed
from lakeward.engines.arrow.plain import neutral
from lakeward.engines.arrow.remote import RowFile
from lakeward.engines.arrow.text import opened_text
from lakeward.errors import InvalidInput, SchemaMismatch

_BLOCK: Final = 2 * 2**20
"""The bytes of a block. Arrow reads about 32 blocks ahead, so memory holds 64 MB of a file."""
_SHOWN: Final = 80
_ZONE: Final = r"(?i)(Z|[+-]\d\d(:?\d\d)?)$"
_TRUE: Final = pa.array(["true", "t", "yes", "1"])
_FALSE: Final = pa.array(["false", "f", "no", "0"])


def csv_rows(path: RowFile, schema: pa.Schema, table: str) -> Iterator[pa.Table]:
    """Yield the rows of a file, in parts of a few megabytes, with the types of a schema."""
    names = csv_names(path)
    _check_first_line(names, schema, table, path)
    with opened_text(path) as file:
        reader = pv.open_csv(
            file,
            pv.ReadOptions(block_size=_BLOCK, use_threads=False),
            _parsing(path),
            _as_text(names),
        )
        parts = (pa.Table.from_batches([b]) for b in _or_empty(reader))
        for part in _placed(parts, path):
            yield _converted(part, schema, table)


def csv_schema(path: RowFile) -> pa.Schema:
    """Return the columns of a file, with types guessed from its first megabytes."""
    with opened_text(path) as file:
        found = pv.open_csv(file, pv.ReadOptions(block_size=_BLOCK), _parsing(path)).schema
    # A column without values may become anything, and text holds it.
    fields = [f.with_type(pa.string()) if pa.types.is_null(f.type) else f for f in found]
    return pa.schema([f.with_type(_finer(f.type)) for f in fields])


def parsed_text(values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Parse text as values of a type; raise `ValueError` if one is not of the type."""
    types = pa.types
    if types.is_string(kind):
        return values
    if types.is_binary(kind):
        return values.cast(kind)
    values = pc.utf8_trim_whitespace(values)
    values = pc.if_else(pc.equal(values, ""), pa.scalar(None, pa.string()), values)
    if types.is_boolean(kind):
        return _booleans(values)
    if types.is_timestamp(kind):
        return _moments(values, kind)
    if types.is_floating(kind):
        found = values.cast(kind)
        # Arrow takes what is too large for infinity.
        lost = pc.and_(pc.is_inf(found), pc.match_substring_regex(values, r"\d"))
        if pc.any(lost).as_py():
            message = "a number is too large"
            raise ValueError(message)
        return found
    return values.cast(kind)


def _placed(parts: Iterator[pa.Table], path: RowFile) -> Iterator[pa.Table]:
    """Yield the parts with the line of their first row; with the row if values have newlines."""
    row, line = 0, 2
    for part in parts:
        breaks = sum(pc.sum(pc.count_substring(c, "\n")).as_py() or 0 for c in part.columns)
        yield placed(part, path, row if breaks else line, "row" if breaks else "line")
        row, line = row + part.num_rows, line + part.num_rows + breaks


def _converted(part: pa.Table, schema: pa.Schema, table: str) -> pa.Table:
    columns = []
    for name, values in zip(part.column_names, part.columns, strict=True):
        position = schema.get_field_index(name)
        # What the table does not have is refused where all data is made to fit it.
        kind = pa.string() if position < 0 else schema.field(position).type
        columns.append(_column(values, kind, name, table, part.schema))
    found = pa.table(columns, names=part.column_names)
    return found.replace_schema_metadata(part.schema.metadata)


def _column(
    values: pa.ChunkedArray, kind: pa.DataType, name: str, table: str, given: pa.Schema
) -> pa.ChunkedArray:
    if pa.types.is_nested(kind):
        what = f"Column {name} of {table} is {neutral(kind)},"
        what += " which a CSV file cannot hold."
        hint = "Load the rows from JSON lines or Parquet."
        raise SchemaMismatch(what, hint=hint, table=table, column=name)
    try:
        return parsed_text(values, kind)
    except (pa.ArrowException, ValueError):
        index = _first_wrong(values, kind)
        shown = repr(values[index].as_py())[:_SHOWN]
        own = neutral(kind)
        where = place(given, index)
        raise misfit(shown, own, name, table, where, _spelling(kind)) from None


def _spelling(kind: pa.DataType) -> str | None:
    """Return a hint how values of a type are written in a text file; None for other types."""
    if pa.types.is_date(kind):
        return "Dates are written as 2026-11-30."
    if pa.types.is_timestamp(kind) and kind.tz is None:
        return "Timestamps without a zone are written as 2026-11-30 08:15:00."
    if pa.types.is_timestamp(kind):
        return "Timestamps are written as 2026-11-30T08:15:00Z; without a zone they are UTC."
    if pa.types.is_boolean(kind):
        return "Write true or false."
    return "Numbers are written as 1234.5." if pa.types.is_floating(kind) else None


def _first_wrong(values: pa.ChunkedArray, kind: pa.DataType) -> int:
    start, count = 0, len(values)
    while count > 1:
        half = count // 2
        try:
            parsed_text(values.slice(start, half), kind)
            start, count = start + half, count - half
        except (pa.ArrowException, ValueError):
            count = half
    return start


def _booleans(values: pa.ChunkedArray) -> pa.ChunkedArray:
    lowered = pc.utf8_lower(values)
    true, false = pc.is_in(lowered, _TRUE), pc.is_in(lowered, _FALSE)
    known = pc.or_(pc.or_(true, false), pc.is_null(values))
    if pc.all(known, min_count=0).as_py() is False:
        message = "neither true nor false"
        raise ValueError(message)
    return pc.if_else(pc.is_null(values), pa.scalar(None, pa.bool_()), true)


def _moments(values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Parse timestamps with and without zones in one column."""
    plain = pa.timestamp(kind.unit)
    if kind.tz is None:
        return values.cast(plain)
    zoned = pc.match_substring_regex(values, _ZONE + r"|^$")
    # A date alone ends like an offset.
    zoned = pc.and_(zoned, pc.match_substring(values, ":"))
    nothing = pa.scalar(None, pa.string())
    with_zone = pc.if_else(zoned, values, nothing).cast(kind)
    without = pc.if_else(zoned, nothing, values).cast(plain).cast(kind)
    return pc.coalesce(with_zone, without)


def _finer(kind: pa.DataType) -> pa.DataType:
    return pa.timestamp("us", kind.tz) if pa.types.is_timestamp(kind) else kind


def csv_names(path: RowFile) -> list[str]:
    """Return the names in the first line."""
    with opened_text(path) as file:
        try:
            # Blocks that Arrow read ahead stay in memory for a moment after the reader is gone.
            options = pv.ReadOptions(block_size=_BLOCK, use_threads=False)
            return list(pv.open_csv(file, options, _parsing(path)).schema.names)
        except pa.ArrowInvalid as error:
            if "Empty CSV" not in str(error):
                raise
    what = f"{path} is empty."
    raise InvalidInput(what, hint="The first line of a CSV file names its columns.", path=str(path))


def _check_first_line(names: list[str], schema: pa.Schema, table: str, path: RowFile) -> None:
    """Raise `SchemaMismatch` if none of the names in the first line is a column of the table."""
    if any(name in schema.names for name in names):
        return
    what = f"The first line of {path} names no column of {table}: {','.join(names)[:_SHOWN]}."
    expected = ",".join(schema.names)
    hint = f"Begin the file with a line of names, separated by commas: {expected}."
    raise SchemaMismatch(what, hint=hint, table=table, path=str(path), missing=schema.names)


def delimiter_of(path: RowFile) -> str:
    """Return what separates the values of a file, by the extension of its name."""
    return "\t" if any(s.lower() == ".tsv" for s in path.suffixes) else ","


def _parsing(path: RowFile) -> pv.ParseOptions:
    return pv.ParseOptions(delimiter=delimiter_of(path), newlines_in_values=True)


def _as_text(names: list[str]) -> pv.ConvertOptions:
    return pv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )


def _or_empty(reader: Any) -> Iterator[pa.RecordBatch]:
    first = next(iter(reader), None)
    yield pa.RecordBatch.from_pylist([], reader.schema) if first is None else first
    yield from reader
