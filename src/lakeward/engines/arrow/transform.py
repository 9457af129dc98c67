"""Partition transforms of whole Arrow columns.

The same values as `lakeward.model.transform` gives one by one. What Arrow has no kernel for is
found once for each distinct value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.engines.arrow import murmur3
from lakeward.model.bucket import POSITIVE, SHORT
from lakeward.model.civil import DAY, EPOCH_YEAR, FIRST_DAY, HOUR, LAST_DAY
from lakeward.model.murmur3 import SPARK_SEED
from lakeward.model.transform import TIMES, Rules, Transform
from lakeward.model.types import Decimal, Primitive, Type, arrow_type
from lakeward.model.values import from_neutral, to_neutral

_INT64: Final = pa.int64()


def transformed(transform: Transform, kind: Type, values: pa.ChunkedArray) -> pa.Array:
    """The partition values of a column's values, of the Arrow type of the transform's result.

    Args:
        transform: One that has a meaning for the type.
        kind: The column's type.
        values: In the Arrow type that the lake gives such columns.

    Raises:
        ValueError: A value has no partition value; says why.
    """
    column = _single(values)
    out = arrow_type(transform.result(kind))
    name = kind.name if isinstance(kind, Primitive) else ""
    if transform.name == "void":
        return pa.nulls(len(column), out)
    if transform.name == "identity":
        return column
    if transform.name in TIMES:
        return _time(transform, kind, column).cast(out)
    if isinstance(kind, Decimal):
        found = _distinct(column, lambda some: _one_by_one(transform, kind, some, out))
    elif transform.name == "bucket":
        found = _bucket(transform, name, column)
    else:
        return _truncated(name, column, transform.width or 0)
    missing = transform.apply(kind, None)
    return found if missing is None else pc.fill_null(found, pa.scalar(missing, out))


def _truncated(name: str, column: pa.Array, width: int) -> pa.Array:
    if name == "string":
        return pc.utf8_slice_codeunits(column, 0, width)
    return pc.binary_slice(column, 0, width) if name == "binary" else _multiple(column, width)


def _time(transform: Transform, kind: Type, column: pa.Array) -> pa.Array:
    is_date = pa.types.is_date(column.type)
    ticks = column.cast(pa.int32()).cast(_INT64) if is_date else _microseconds(column)
    days = ticks if is_date else _floor(ticks, DAY)
    low, high = (pc.min_max(days)[end].as_py() for end in ("min", "max"))
    if low is not None and (low < FIRST_DAY or high > LAST_DAY):
        message = "a moment outside the years 1 to 9999"
        raise ValueError(message)
    if transform.name == "day":
        return days.cast(pa.int32()).cast(pa.date32())
    if transform.rules is Rules.SPARK and transform.name != "year":
        # Texts: few periods, many rows.
        period = days if is_date else _floor(ticks, HOUR if transform.name == "hour" else DAY)
        unit = 1 if is_date else HOUR if transform.name == "hour" else DAY

        def texts(found: pa.Array) -> pa.Array:
            return pa.array([transform.apply(kind, p * unit) for p in found.to_pylist()])

        return _distinct(period, texts)
    if transform.name == "hour":
        return _floor(ticks, HOUR)
    dates = days.cast(pa.int32()).cast(pa.date32())
    years = pc.year(dates)
    if transform.rules is Rules.SPARK:
        return years
    years = pc.subtract(years, _scalar(EPOCH_YEAR))
    if transform.name == "year":
        return years
    months = pc.subtract(pc.month(dates), _scalar(1))
    return pc.add(pc.multiply(years, _scalar(12)), months)


def _bucket(transform: Transform, name: str, column: pa.Array) -> pa.Array:
    spark = transform.rules is Rules.SPARK
    seed = SPARK_SEED if spark else 0
    if name in ("string", "binary"):
        hashes = _distinct(
            column.cast(pa.binary()), lambda found: murmur3.of_bytes(found, spark=spark)
        )
    elif spark and name in SHORT:
        hashes = murmur3.of_ints(column.cast(pa.int32()), seed)
    elif name == "date":
        hashes = murmur3.of_longs(column.cast(pa.int32()).cast(_INT64), seed)
    elif name.startswith("timestamp"):
        hashes = murmur3.of_longs(_microseconds(column), seed)
    else:
        hashes = murmur3.of_longs(column.cast(_INT64), seed)
    width = transform.width or 1
    if not spark:
        positive = pc.bit_wise_and(hashes, pa.scalar(POSITIVE, pa.uint32()))
        return _remainder(positive.cast(_INT64), width).cast(pa.int32())
    return _remainder(hashes.view(pa.int32()).cast(_INT64), width).cast(pa.int32())


def _multiple(column: pa.Array, width: int) -> pa.Array:
    """The next multiple that is not above."""
    wide = column.cast(_INT64)
    try:
        return pc.subtract_checked(wide, _remainder(wide, width)).cast(column.type)
    except pa.ArrowInvalid as error:
        message = f"a number that has no multiple of {width} below it in {column.type}"
        raise ValueError(message) from error


def _distinct(column: pa.Array, function: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """A function of a column, asked once for each distinct value; missing values stay so."""
    encoded = column.dictionary_encode()
    return function(encoded.dictionary).take(encoded.indices)


def _one_by_one(transform: Transform, kind: Type, values: pa.Array, out: pa.DataType) -> pa.Array:
    result = transform.result(kind)
    found = [transform.apply(kind, to_neutral(kind, v)) for v in values.to_pylist()]
    return pa.array([from_neutral(result, v) for v in found], out)


def _microseconds(column: pa.Array) -> pa.Array:
    try:
        return column.cast(pa.timestamp("us", column.type.tz)).cast(_INT64)
    except pa.ArrowInvalid as error:
        message = "a moment outside the years 1 to 9999"
        raise ValueError(message) from error


def _remainder(column: pa.Array, width: int) -> pa.Array:
    """Never negative."""
    return pc.subtract(column, pc.multiply(_floor(column, width), _scalar(width)))


def _floor(column: pa.Array, width: int) -> pa.Array:
    """Divided, and rounded down, where Arrow rounds to zero."""
    quotient = pc.divide(column, _scalar(width))
    rest = pc.subtract(column, pc.multiply(quotient, _scalar(width)))
    return pc.subtract(quotient, pc.less(rest, _scalar(0)).cast(_INT64))


def _single(values: pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _scalar(value: int) -> Any:
    return pa.scalar(value, _INT64)
