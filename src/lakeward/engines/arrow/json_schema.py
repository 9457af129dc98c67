"""Guesses the types of the columns of JSON lines.

Arrow takes dates and times for timestamps without a zone, and for text if they have fractions of a
second. So they are read as text, which tells dates, times in a zone and times without one apart.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from lakeward.engines.arrow.csv import parsed_text

_DAY: Final = r"^\d{4}-\d\d-\d\d$"
_ZONED: Final = r"(?i):.*(Z|[+-]\d\d(:?\d\d)?)$"
_TIME: Final = r"(?i)^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d(:?\d\d)?)?)?$"


def json_schema(lines: bytes) -> pa.Schema:
    """Return the columns of objects in lines; a time is in UTC if any of its column has a zone."""
    reading = pj.ReadOptions(block_size=len(lines) + 1)
    found = pj.read_json(pa.BufferReader(lines), reading).schema
    as_text = pa.schema([f.with_type(_as_text(f.type)) for f in found])
    parsing = pj.ParseOptions(explicit_schema=as_text)
    rows = pj.read_json(pa.BufferReader(lines), reading, parsing)
    columns = [rows[name].combine_chunks() for name in found.names]
    return pa.schema([f.with_type(_told(c)) for f, c in zip(found, columns, strict=True)])


def _as_text(kind: pa.DataType) -> pa.DataType:
    """Return the type with text in place of timestamps."""
    if pa.types.is_timestamp(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([f.with_type(_as_text(f.type)) for f in kind])
    return pa.list_(_as_text(kind.value_type)) if pa.types.is_list(kind) else kind


def _told(values: pa.Array) -> pa.DataType:
    """Return the type of values in which dates and times are texts."""
    kind = values.type
    if pa.types.is_string(kind):
        return _of_texts(values)
    if pa.types.is_struct(kind):
        parts = zip(kind, values.flatten(), strict=True)
        return pa.struct([f.with_type(_told(part)) for f, part in parts])
    return pa.list_(_told(values.flatten())) if pa.types.is_list(kind) else kind


def _of_texts(texts: pa.Array) -> pa.DataType:
    """Return the type of texts: a date or timestamp if all of them are read as one."""
    is_time = pc.match_substring_regex(texts, _TIME)
    if pc.all(is_time, min_count=1).as_py() is not True:
        return texts.type
    kind = pa.timestamp("us")
    if pc.all(pc.match_substring_regex(texts, _DAY)).as_py():
        kind = pa.date32()
    elif pc.any(pc.match_substring_regex(texts, _ZONED)).as_py():
        kind = pa.timestamp("us", "UTC")
    try:
        parsed_text(pa.chunked_array([texts]), kind)
    except (pa.ArrowException, ValueError):
        return texts.type
    return kind
