"""Plain Python values as Arrow arrays, with nothing lost on the way.

Arrow makes 1 of 1.5, a date of any number, and drops parts of a struct that it does not know. What
would not come back as it was given is refused instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, Final, TypeAlias

import pyarrow as pa

from lakeward.errors import SchemaMismatch

_Fits: TypeAlias = Callable[[Any], bool]
_SINGLE_MAX: Final = 3.4028234663852886e38
_SHOWN: Final = 80


def array_of(values: Any, kind: pa.DataType, column: str, table: str) -> Any:
    """The values as an Arrow array of a type.

    Args:
        values: An Arrow or NumPy array, or any iterable of Python values; None is a missing one.
        kind: The type.
        column: Whose values they are.
        table: Whose column it is.

    Raises:
        SchemaMismatch: A value is not of the type, or would lose something.
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
    """Whether it is an array of NumPy or pandas, whose type tells Arrow what must not be lost."""
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
