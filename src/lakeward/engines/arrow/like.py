"""Derives the columns of a new table from data: a frame, a reader, a file, a library's schema."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakeward.engines.arrow.files import file_schema, paths_of
from lakeward.engines.arrow.remote import RemoteFiles
from lakeward.errors import InvalidInput

_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    # As Spark keeps them.
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
}


def schema_like(source: Any) -> pa.Schema:
    """Return the columns that can hold such data.

    Unsigned integers become the next wider signed ones, timestamps in seconds and nanoseconds
    become microseconds. Raises `InvalidInput` for columns without values, which have no type.
    """
    try:
        found = _schema_of(source)
    except (pa.ArrowException, TypeError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        what = f"`like` is a value of type {type(source).__name__}, whose columns cannot be told."
        raise InvalidInput(what, hint=f"{_HINT} ({error})", parameter="like") from error
    return pa.schema([_kept(field) for field in found])


def schema_of_rows(source: Any, known: Collection[str]) -> tuple[pa.Schema, bool]:
    """Return the columns of rows, and whether the rows themselves have types.

    Columns without a value are left out if they are `known`. Raises `InvalidInput` for data that
    would have to be read to find its columns.
    """
    try:
        found = _schema_of(source)
    except (pa.ArrowException, TypeError, ValueError, InvalidInput) as error:
        what = f"The columns of {type(source).__name__} cannot be told before it is read."
        hint = "With schema_mode give an Arrow table or reader, a frame, a file or a list of dicts."
        raise InvalidInput(what, hint=hint, parameter="data") from error
    there = [f for f in found if not (pa.types.is_null(f.type) and f.name in known)]
    return pa.schema([_kept(f) for f in there]), not isinstance(source, list | tuple)


_HINT = "Give a data frame, an Arrow table, a schema of Arrow, Polars or pandas, or a file."


def _schema_of(source: Any) -> pa.Schema:
    if isinstance(source, str | Path | RemoteFiles):
        return file_schema(paths_of(source)[0])
    library = type(source).__module__.partition(".")[0]
    if library == "pandas":
        return _of_pandas(source)
    if isinstance(source, pa.Schema):
        return source
    if hasattr(source, "collect_schema"):
        # A frame of Polars, which need not be computed.
        source = source.collect_schema()
    if "duckdb" in library and hasattr(source, "limit"):
        source = source.limit(0)
    for holder in (source, getattr(source, "schema", None)):
        if hasattr(holder, "__arrow_c_schema__"):
            return pa.schema(holder)
    if hasattr(source, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(source).schema
    if isinstance(source, Sequence) and source and isinstance(source[0], dict):
        return pa.Table.from_pylist(list(source)).schema
    what = f"`like` is {'None' if source is None else f'a value of type {type(source).__name__}'}."
    raise InvalidInput(what, hint=_HINT, parameter="like")


def _of_pandas(source: Any) -> pa.Schema:
    if not hasattr(source, "columns"):
        # The types of a frame, which are a series by the names of its columns.
        import pandas as pd

        source = pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in source.items()})
    return pa.Schema.from_pandas(source, preserve_index=False)


def _kept(field: pa.Field) -> pa.Field:
    kind = field.type
    if pa.types.is_null(kind):
        what = f"Column {field.name!r} has no values that tell its type."
        hint = 'Give the table\'s columns as text: `lake.create(name, "id int64, …")`.'
        raise InvalidInput(what, hint=hint, column=field.name)
    if pa.types.is_timestamp(kind) and kind.unit in ("s", "ns"):
        kind = pa.timestamp("us", kind.tz)
    return field.with_type(_WIDER.get(kind, kind))
