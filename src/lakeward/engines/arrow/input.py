"""Rows as a user may give them, as Arrow: tables, batches, readers, frames, dictionaries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from lakeward.engines.arrow.plain import array_of
from lakeward.errors import InvalidInput, SchemaMismatch

_NOTHING: Final = object()


def tables_of(data: Any, schema: pa.Schema, table: str) -> Iterator[pa.Table]:
    """The rows as Arrow tables, one or many, in order; nothing is held longer than needed.

    Args:
        data: A table, batch, reader, dataset, iterable of these, data frame, anything with the
            Arrow stream interface, or a sequence or mapping of plain Python values.
        schema: What plain Python values are read as.
        table: For whom, to name in errors.

    Raises:
        InvalidInput: Rows cannot be made of it.
        SchemaMismatch: Plain values that do not fit the schema.
    """
    if isinstance(data, pa.Table):
        return iter((data,))
    if isinstance(data, pa.RecordBatch):
        return iter((pa.Table.from_batches([data]),))
    if _is_pandas(data):
        # Before the stream, which takes an index for a column.
        return iter((_from_pandas(data),))
    if hasattr(data, "__arrow_c_stream__"):
        return _from_stream(data)
    if hasattr(data, "scanner"):
        # An Arrow dataset.
        return _from_stream(data.scanner().to_reader())
    if hasattr(data, "__arrow_c_array__"):
        return iter((_from_array(data),))
    if isinstance(data, Mapping):
        return iter((_from_columns(data, schema, table),))
    if isinstance(data, Iterable) and not isinstance(data, str | bytes):
        return _from_iterable(data, schema, table)
    raise _not_rows(data)


def _from_array(data: Any) -> pa.Table:
    try:
        return pa.Table.from_batches([pa.record_batch(data)])
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise _not_rows(data) from error


def _from_stream(data: Any) -> Iterator[pa.Table]:
    try:
        reader = pa.RecordBatchReader.from_stream(data)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise _not_rows(data) from error
    empty = True
    for batch in reader:
        empty = False
        yield pa.Table.from_batches([batch])
    if empty:
        yield reader.schema.empty_table()


def _from_iterable(data: Iterable[Any], schema: pa.Schema, table: str) -> Iterator[pa.Table]:
    items = iter(data)
    first = next(items, _NOTHING)
    if first is _NOTHING:
        return iter((schema.empty_table(),))
    everything = chain([first], items)
    if isinstance(first, Mapping):
        return iter((_from_rows(list(everything), schema, table),))
    return chain.from_iterable(_arrow_item(item, schema, table) for item in everything)


def _arrow_item(item: Any, schema: pa.Schema, table: str) -> Iterator[pa.Table]:
    if isinstance(item, str | bytes | int | float) or item is None:
        raise _not_rows(item)
    return tables_of(item, schema, table)


def _from_rows(rows: Sequence[Mapping[str, Any]], schema: pa.Schema, table: str) -> pa.Table:
    """Rows that name their columns: a name nobody knows is an error, not a dropped value."""
    for row in rows:
        if not isinstance(row, Mapping):
            raise _not_rows(row)
        _check_names(row, schema, table)
    columns = {
        field.name: [row.get(field.name) for row in rows]
        for field in schema
        if any(field.name in row for row in rows)
    }
    return _from_columns(columns, schema, table)


def _from_columns(columns: Mapping[str, Any], schema: pa.Schema, table: str) -> pa.Table:
    _check_names(columns, schema, table)
    arrays = {
        name: array_of(values, schema.field(name).type, name, table)
        for name, values in columns.items()
    }
    try:
        return pa.table(arrays)
    except (pa.ArrowException, ValueError) as error:
        what = f"The columns for {table} do not make a table: {error}."
        raise InvalidInput(what, hint="Give columns of the same length.", table=table) from error


def _check_names(row: Mapping[str, Any], schema: pa.Schema, table: str) -> None:
    unknown = [name for name in row if name not in schema.names]
    if unknown:
        what = f"Table {table} has no column {', '.join(map(repr, unknown))}."
        hint = f"It has {', '.join(schema.names)}."
        names = [str(u) for u in unknown]
        raise SchemaMismatch(what, hint=hint, table=table, column=names[0], extra=names)


def _from_pandas(data: Any) -> pa.Table:
    try:
        return pa.Table.from_pandas(data, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError) as error:
        what = f"The data frame cannot be read as Arrow: {error}."
        raise InvalidInput(what, hint="Give each column one type.") from error


def _is_pandas(data: Any) -> bool:
    own = type(data).__module__.partition(".")[0] == "pandas"
    return own and hasattr(data, "columns")


def _not_rows(data: Any) -> InvalidInput:
    what = f"Rows cannot be made of {type(data).__name__}."
    hint = "Give an Arrow table, batches or a reader, a pandas or Polars frame, or a list of dicts."
    return InvalidInput(what, hint=hint)
