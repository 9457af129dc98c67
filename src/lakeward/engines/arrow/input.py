"""Rows that a user gives, as Arrow tables: tables, batches, readers, frames, dictionaries."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from itertools import chain
from numbers import Integral, Real
from typing import Any, Final, TypeAlias

import pyarrow as pa

from lakeward.errors import InvalidInput, SchemaMismatch

_NOTHING: Final = object()
_Fits: TypeAlias = Callable[[Any], bool]
_SINGLE_MAX: Final = 3.4028234663852886e38
_SHOWN: Final = 80


def tables_of(data: Any, schema: pa.Schema, table: str) -> Iterator[pa.Table]:
    """Return the rows as Arrow tables, in order; nothing is held longer than needed.

    Args:
        data: A table, batch, reader, dataset, iterable of these, data frame, anything with the
            Arrow stream interface, or a sequence or mapping of plain Python values.
        schema: What plain Python values are read as.
        table: For whom, to name in errors.
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
    """Make a table of dictionaries; an unknown name is an error, not a dropped value."""
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


def array_of(values: Any, kind: pa.DataType, column: str, table: str) -> Any:
    """Return the values as an Arrow array of a type, with nothing lost.

    Arrow makes 1 of 1.5, a date of any number, and drops parts of a struct that it does not know.
    What would not come back as it was given is a `SchemaMismatch` instead.
    """
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    try:
        if _is_typed(values):
            return pa.array(values, kind)
        given = values if isinstance(values, list | tuple) else list(values)
        fits = _fits(kind)
        for value in given:
            if value is not None and not fits(value):
                raise _lossy(value, kind, column, table)
        return pa.array(given, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, SchemaMismatch):
            raise
        what = f"Column {column} of {table} has values that are no {kind}: {error}."
        hint = "Convert the values first."
        raise SchemaMismatch(what, hint=hint, table=table, column=column) from error


def _is_typed(values: Any) -> bool:
    """Whether it is a typed array of NumPy or pandas, which Arrow converts without loss."""
    kind = getattr(values, "dtype", None)
    return kind is not None and str(kind) != "object"


def _fits(kind: pa.DataType) -> _Fits:
    types = pa.types
    if types.is_integer(kind):
        return _whole
    if types.is_float32(kind):
        return _single
    if types.is_float64(kind):
        return _real
    if types.is_string(kind):
        return lambda value: isinstance(value, str)
    if types.is_binary(kind):
        return lambda value: isinstance(value, bytes | bytearray | memoryview)
    if types.is_decimal(kind):
        return lambda value: not isinstance(value, bool)
    if types.is_date(kind):
        return _day
    if types.is_timestamp(kind):
        return _moment(kind)
    return _nested(kind)


def _nested(kind: pa.DataType) -> _Fits:
    types = pa.types
    if types.is_struct(kind):
        parts = {field.name: _or_missing(field.type) for field in kind}
        return lambda value: (
            isinstance(value, Mapping)
            and all(name in parts and parts[name](part) for name, part in value.items())
        )
    if types.is_list(kind):
        element = _or_missing(kind.value_type)
        return lambda value: _is_sequence(value) and all(map(element, value))
    if types.is_map(kind):
        key, item = _fits(kind.key_type), _or_missing(kind.item_type)
        return lambda value: all(
            key(k) and item(v) for k, v in (value.items() if isinstance(value, Mapping) else value)
        )
    return lambda value: True  # noqa: ARG005  Arrow itself refuses what is wrong


def _or_missing(kind: pa.DataType) -> _Fits:
    fits = _fits(kind)
    return lambda value: value is None or fits(value)


def _whole(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(value, float | Decimal):
        return math.isfinite(value) and value == int(value)
    return isinstance(value, Integral)


def _real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _single(value: Any) -> bool:
    return _real(value) and (not math.isfinite(value) or abs(value) <= _SINGLE_MAX)


def _day(value: Any) -> bool:
    if isinstance(value, datetime):
        return value.time() == time() and value.tzinfo is None
    return isinstance(value, date) or _is_typed(value)


def _moment(kind: pa.DataType) -> _Fits:
    zoned, fine = kind.tz is not None, kind.unit == "us"

    def fits(value: Any) -> bool:
        if not isinstance(value, datetime):
            return _is_typed(value)
        if getattr(value, "nanosecond", 0) or not (fine or value.microsecond % 1000 == 0):
            return False
        # Without a zone it is taken as UTC; a wall clock has no place for a zone.
        return zoned or value.tzinfo is None

    return fits


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _lossy(value: Any, kind: pa.DataType, column: str, table: str) -> SchemaMismatch:
    shown = repr(value)[:_SHOWN]
    what = f"Column {column} of {table} is {kind}; {shown} does not fit it without loss."
    return SchemaMismatch(
        what, hint="Convert the values first.", table=table, column=column, value=shown
    )
