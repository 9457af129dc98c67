"""Converts plain Python values to Arrow arrays and tables of given types, without loss."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, Final, NoReturn, TypeAlias

import pyarrow as pa

from lakeward.engines.arrow.fit import misfit
from lakeward.errors import InvalidInput, LakewardError, SchemaMismatch
from lakeward.model.types import Ids, Primitive, Type, type_from_arrow

_Fits: TypeAlias = Callable[[Any], bool]
_SINGLE_MAX: Final = 3.4028234663852886e38
_SHOWN: Final = 80


def table_of_rows(rows: Sequence[Any], schema: pa.Schema, table: str) -> pa.Table:
    """Return a table of dictionaries; raise `SchemaMismatch` for a name that is no column."""
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            what = (
                f"Row {number} of the data for {table} is {_kind(row)}, not a dict like the first."
            )
            raise InvalidInput(what, hint="Give one dict for each row.", table=table, row=number)
        _check_names(row, schema, table)
    columns = {
        field.name: [row.get(field.name) for row in rows]
        for field in schema
        if any(field.name in row for row in rows)
    }
    return table_of_columns(columns, schema, table)


def table_of_columns(columns: Mapping[str, Any], schema: pa.Schema, table: str) -> pa.Table:
    """Return a table of lists of values by the names of columns."""
    _check_names(columns, schema, table)
    for name, values in columns.items():
        if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
            shown = repr(dict(columns))
            example = f"[{shown}]" if len(shown) <= _SHOWN else "[{…}]"
            what = f"Column {name} of the data for {table} is one value, not a list of values."
            hint = f"To give one row, write {example}."
            raise InvalidInput(what, hint=hint, table=table, column=name)
    arrays = {
        name: array_of(values, schema.field(name).type, name, table)
        for name, values in columns.items()
    }
    lengths = {name: len(values) for name, values in arrays.items()}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{name} has {count}" for name, count in lengths.items())
        what = f"The columns for {table} have different lengths: {counts}."
        raise InvalidInput(what, hint="Give columns of the same length.", table=table)
    return pa.table(arrays)


def _check_names(row: Mapping[str, Any], schema: pa.Schema, table: str) -> None:
    unknown = [name for name in row if name not in schema.names]
    if not unknown:
        return
    what = f"Table {table} has no column {', '.join(map(repr, unknown))}."
    near = difflib.get_close_matches(str(unknown[0]), schema.names, 1)
    hint = f"It has {', '.join(schema.names)}."
    hint = f"Did you mean {near[0]!r}? {hint}" if near else hint
    names = [str(u) for u in unknown]
    raise SchemaMismatch(what, hint=hint, table=table, column=names[0], extra=names)


def array_of(values: Any, kind: pa.DataType, column: str, table: str) -> Any:
    """Return the values as an Arrow array of a type, without loss.

    Arrow converts 1.5 to 1 and any number to a date, and drops struct members that it does not
    know. A value that would not come back as it was given raises a `SchemaMismatch` instead.
    """
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    given: Any = values
    try:
        if _is_typed(values):
            # With its own type, so that it is made to fit as all typed data is.
            return pa.array(values)
        given = values if isinstance(values, list | tuple) else list(values)
        fits = _fits(kind)
        if any(own.__module__ == "numpy" for own in set(map(type, given))):
            given = [v.item() if type(v).__module__ == "numpy" else v for v in given]
        for row, value in enumerate(given):
            if value is not None and not fits(value):
                raise _lossy(value, kind, column, table, row)
        return pa.array(_in_utc(given, kind), kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, SchemaMismatch):
            raise
        _refuse(given, kind, column, table, error)


def _is_typed(values: Any) -> bool:
    """Whether a value is an array or a scalar of NumPy, pandas or Polars with a type."""
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


def _in_utc(values: Any, kind: pa.DataType) -> Any:
    """Return values with all zoned datetimes in UTC, for a type that has them.

    Arrow ignores their zones if PYARROW_IGNORE_TIMEZONE is set, which pandera and pyspark.pandas
    do when they are imported; in UTC that changes nothing.
    """
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return [v.astimezone(UTC) if getattr(v, "tzinfo", None) is not None else v for v in values]
    if pa.types.is_nested(kind) and _has_moments(kind):
        return [None if v is None else _nested_in_utc(v, kind) for v in values]
    return values


def _nested_in_utc(value: Any, kind: pa.DataType) -> Any:
    if pa.types.is_struct(kind):
        types = {field.name: field.type for field in kind}
        return {n: _in_utc([v], types[n])[0] if n in types else v for n, v in value.items()}
    if pa.types.is_map(kind):
        pairs = value.items() if isinstance(value, Mapping) else value
        keys, items = zip(*pairs, strict=True) if pairs else ((), ())
        return list(zip(_in_utc(keys, kind.key_type), _in_utc(items, kind.item_type), strict=True))
    return _in_utc(list(value), kind.value_type)


def _has_moments(kind: pa.DataType) -> bool:
    if not pa.types.is_nested(kind):
        return pa.types.is_timestamp(kind) and kind.tz is not None
    return any(_has_moments(kind.field(n).type) for n in range(kind.num_fields))


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


def _refuse(values: Any, kind: pa.DataType, column: str, table: str, error: Exception) -> NoReturn:
    """Raise the error for the first value that Arrow cannot convert."""
    for row, value in enumerate(values):
        try:
            pa.array([value], kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            raise _lossy(value, kind, column, table, row) from None
    what = f"Column {column} of {table} has values that are no {kind}: {error}."
    raise SchemaMismatch(what, hint="Convert the values first.", table=table, column=column)


def _lossy(value: Any, kind: pa.DataType, column: str, table: str, row: int) -> SchemaMismatch:
    shown = str(value) if isinstance(value, Decimal | date) else repr(value)
    rule = None
    if isinstance(value, float) and pa.types.is_decimal(kind):
        rule = f"Floats are not exact: give Decimal('{value}')."
    where = (f"row {row}", {"row": row})
    return misfit(shown[:_SHOWN], neutral(kind), column, table, where, rule)


def neutral(kind: pa.DataType) -> Type:
    """Return Lakeward's type for an Arrow type, for errors."""
    try:
        return type_from_arrow(kind, Ids(), where="")
    except LakewardError:
        return Primitive(str(kind))


def _kind(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
