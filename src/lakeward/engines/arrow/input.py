"""Converts rows that a user gives to Arrow tables: tables, readers, frames, files, dictionaries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from lakeward.engines.arrow import files
from lakeward.engines.arrow.origin import numbered
from lakeward.engines.arrow.plain import array_of, table_of_columns, table_of_rows
from lakeward.engines.arrow.remote import RemoteFiles
from lakeward.engines.arrow.streams import reader_of
from lakeward.errors import InvalidInput, SchemaMismatch

_NOTHING: Final = object()


def tables_of(data: Any, schema: pa.Schema, table: str) -> Iterator[pa.Table]:
    """Return an iterator over the rows as Arrow tables, in order.

    No table is kept longer than needed.

    Args:
        data: A table, batch, reader, dataset, iterable of these, data frame, lazy frame, anything
            with the Arrow stream interface, a path or pattern of files, or a sequence or mapping of
            plain Python values.
        schema: The types to which plain Python values, and the text of files, are converted.
        table: The name of the table for which the rows are, for errors.
    """
    if isinstance(data, pa.Table):
        return iter((data,))
    if isinstance(data, pa.RecordBatch):
        return iter((pa.Table.from_batches([data]),))
    if isinstance(data, str | Path | RemoteFiles):
        return files.rows_of(data, schema, table)
    library = type(data).__module__.partition(".")[0]
    if library == "pandas" and hasattr(data, "columns"):
        # Before the stream, which takes an index for a column.
        return iter((_from_pandas(data, schema, table),))
    if library == "polars" and hasattr(data, "collect_batches"):
        return numbered(_from_lazy(data))
    if hasattr(data, "__arrow_c_stream__"):
        return numbered(_from_stream(data))
    if hasattr(data, "scanner"):
        # An Arrow dataset.
        return numbered(_from_stream(data.scanner().to_reader()))
    if hasattr(data, "__arrow_c_array__"):
        return iter((_from_array(data),))
    if isinstance(data, Mapping):
        return iter((table_of_columns(data, schema, table),))
    if library == "pyspark":
        what = f"The data for {table} is a frame of Spark."
        hint = "Begin the transaction with lake.transaction(spark=session)."
        raise InvalidInput(what, hint=hint, table=table)
    if isinstance(data, Iterable) and not isinstance(data, bytes):
        return _from_iterable(data, schema, table)
    raise _not_rows(data)


def _from_array(data: Any) -> pa.Table:
    try:
        return pa.Table.from_batches([pa.record_batch(data)])
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise _not_rows(data) from error


def _from_stream(data: Any) -> Iterator[pa.Table]:
    try:
        reader = reader_of(data)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise _not_rows(data) from error
    empty = True
    for batch in reader:
        empty = False
        yield pa.Table.from_batches([batch])
    if empty:
        yield reader.schema.empty_table()


def _from_lazy(data: Any) -> Iterator[pa.Table]:
    """Yield the rows of a Polars LazyFrame, computed part by part."""
    empty = True
    for part in data.collect_batches():
        empty = False
        yield from _from_stream(part)
    if empty:
        yield from _from_stream(data.head(0).collect())


def _from_iterable(data: Iterable[Any], schema: pa.Schema, table: str) -> Iterator[pa.Table]:
    items = iter(data)
    first = next(items, _NOTHING)
    if first is _NOTHING:
        return iter((schema.empty_table(),))
    everything = chain([first], items)
    if isinstance(first, Mapping):
        return iter((table_of_rows(list(everything), schema, table),))
    parts = (part for item in everything for part in _arrow_item(item, schema, table))
    return parts if isinstance(first, str | Path | RemoteFiles) else numbered(parts)


def _arrow_item(item: Any, schema: pa.Schema, table: str) -> Iterator[pa.Table]:
    if isinstance(item, list | tuple) or type(item).__name__ == "ndarray":
        inside = next(iter(item), None)
        if not isinstance(inside, Mapping) and not _is_arrow(inside):
            what = (
                f"Rows for {table} are given as {type(item).__name__}s, without names of columns."
            )
            names = ", ".join(map(repr, schema.names[:5]))
            more = ", …" if len(schema.names) > 5 else ""
            hint = f"Give dicts: [dict(zip([{names}{more}], row)) for row in rows]."
            raise InvalidInput(what, hint=hint, table=table)
    if not isinstance(item, Path | Iterable) and not _is_arrow(item):
        raise _not_rows(item, f"a list of {type(item).__name__}")
    return tables_of(item, schema, table)


def _is_arrow(data: Any) -> bool:
    """Whether an object has an interface that gives Arrow tables or batches."""
    interfaces = ("__arrow_c_stream__", "__arrow_c_array__", "scanner", "collect_batches")
    return any(hasattr(data, name) for name in interfaces)


def _from_pandas(data: Any, schema: pa.Schema, table: str) -> pa.Table:
    names = list(data.columns)
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice is not None:
        what = f"The data for {table} has the column {twice!r} more than once."
        raise SchemaMismatch(what, hint="Rename one of them.", table=table, columns=[str(twice)])
    index = [n for n in data.index.names if n in schema.names and n not in names]
    if index:
        what = f"Column {index[0]!r} of {table} is the index of the data frame, not a column of it."
        raise SchemaMismatch(what, hint="Call reset_index() first.", table=table, missing=index)
    try:
        return pa.Table.from_pandas(data, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError) as error:
        for name in names:
            if name in schema.names and str(data[name].dtype) == "object":
                values = data[name].astype(object).where(data[name].notna(), None)
                array_of(values.tolist(), schema.field(name).type, name, table)
        what = f"The data frame cannot be read as Arrow: {error}."
        raise InvalidInput(what, hint="Give each column one type.") from error


def _not_rows(data: Any, given: str | None = None) -> InvalidInput:
    what = f"Rows cannot be made of {given or _named(data)}."
    hint = (
        "Give an Arrow table, batches or a reader, a pandas or Polars frame, the path of a file, or"
        " a list of dicts."
    )
    return InvalidInput(what, hint=hint)


def _named(data: Any) -> str:
    return "None" if data is None else f"a value of type {type(data).__name__}"
