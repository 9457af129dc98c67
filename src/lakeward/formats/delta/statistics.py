"""Reads the statistics that other engines wrote, as bounds that are safe to prune by.

Engines round: Spark and delta-rs truncate timestamps to milliseconds, and delta-rs converts
decimals to floating point. Bounds are widened by as much as may have been lost, unless Lakeward
wrote them, which rounds outwards. A bound that cannot be parsed is dropped.

Most writers leave NaN out of bounds, and NaN is greater than every number. So the upper bound of a
float or double column is kept only if the writer is known to write none for a column that has a
NaN.
"""

from __future__ import annotations

import decimal
import json
import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from lakeward.formats.delta.schema import physical_name
from lakeward.model.file import FileStats
from lakeward.model.schema import Schema
from lakeward.model.types import Decimal, Primitive, Type
from lakeward.model.values import MAX_KEY, MIN_KEY, Value, is_text, single

_Convert: TypeAlias = Callable[[Any, bool, bool], Value]
"""Converts a bound; the flags say whether it is an upper bound, and whether it is exact."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_MICROSECOND: Final = timedelta(microseconds=1)
_MILLISECOND: Final = 1000
_WIDE: Final = decimal.Context(prec=100)
_SAFE_DIGITS: Final = decimal.Decimal(10) ** 15
_FLOAT_DIGITS: Final = 17
_FLOAT_ERROR: Final = decimal.Decimal(2) ** -51
_FLOATING: Final = (Primitive("float"), Primitive("double"))
_NUMBERS: Final = (float, int, decimal.Decimal)


class Ticks(int):
    """Days or microseconds since 1970 from Arrow; a plain integer in JSON has no known unit."""


class Trust(NamedTuple):
    """What is known about the writer of statistics.

    Attributes:
        exact: Whether it does not round, so that bounds need not be widened.
        orders_nan: Whether it writes no finite upper bound for a column that has a NaN.
    """

    exact: bool = False
    orders_nan: bool = False


class StatsReader:
    """Reads the statistics of files that have one schema."""

    def __init__(self, schema: Schema) -> None:
        self._bounds: dict[str, tuple[int, _Convert]] = {}
        self._floats: set[str] = set()
        self._nulls: dict[str, int] = {}
        for field in schema.fields:
            name = physical_name(field)
            self._nulls[name] = field.id
            convert = _converter(field.type)
            if convert is not None:
                self._bounds[name] = (field.id, convert)
            if field.type in _FLOATING:
                self._floats.add(name)
        exact = any(isinstance(f.type, Decimal) for f in schema.fields)
        self._load: Callable[[str], Any] = _load_exactly if exact else orjson.loads

    def text(self, source: str, trust: Trust) -> tuple[int | None, FileStats | None]:
        """Return the number of rows and the bounds in a `stats` text; None for what it lacks."""
        try:
            body = self._load(source)
        except (ValueError, RecursionError):
            return None, None
        return self.body(body, trust) if type(body) is dict else (None, None)

    def body(self, body: Mapping[str, Any], trust: Trust) -> tuple[int | None, FileStats | None]:
        """Return the number of rows and the bounds in parsed statistics; None for missing ones."""
        rows = body.get("numRecords")
        if type(rows) is not int or not 0 <= rows <= MAX_KEY:
            rows = None
        lows, highs, nulls = body.get("minValues"), body.get("maxValues"), body.get("nullCount")
        if lows is None and highs is None and nulls is None:
            return rows, None
        return rows, FileStats(
            self._values(lows, trust, up=False),
            self._values(highs, trust, up=True),
            self._counts(nulls),
            tight=body.get("tightBounds") is not False,
        )

    def _values(self, source: Any, trust: Trust, *, up: bool) -> dict[int, Value]:
        out: dict[int, Value] = {}
        if type(source) is dict:
            known = self._bounds
            unsure = self._floats if up and not trust.orders_nan else ()
            for name, value in source.items():
                if name in known and value is not None and name not in unsure:
                    field_id, convert = known[name]
                    found = convert(value, up, trust.exact)
                    if found is not None:
                        out[field_id] = found
        return out

    def _counts(self, source: Any) -> dict[int, int]:
        if type(source) is not dict:
            return {}
        known = self._nulls
        return {
            known[name]: count
            for name, count in source.items()
            if type(count) is int and 0 <= count <= MAX_KEY and name in known
        }


def _load_exactly(text: str) -> Any:
    return json.loads(text, parse_float=decimal.Decimal)


def _converter(kind: Type) -> _Convert | None:
    if isinstance(kind, Decimal):
        return _decimal(kind.scale)
    if not isinstance(kind, Primitive):
        return None
    name = kind.name
    if name.startswith("timestamp"):
        return _timestamp
    return _CONVERTERS.get(name)


def _integer(value: Any, up: bool, exact: bool) -> Value:  # noqa: ARG001, FBT001
    return value if type(value) is int and MIN_KEY <= value <= MAX_KEY else None


def _double(value: Any, up: bool, exact: bool) -> Value:  # noqa: ARG001, FBT001
    if type(value) not in _NUMBERS:
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _single(value: Any, up: bool, exact: bool) -> Value:  # noqa: FBT001
    """Round a bound to single precision.

    Spark prints 0.1 for the single nearest to it, which is larger than the double 0.1.
    """
    number = _double(value, up, exact)
    if not isinstance(number, float):
        return None
    rounded = single(number)
    return rounded if math.isfinite(rounded) else None


def _string(value: Any, up: bool, exact: bool) -> Value:  # noqa: ARG001, FBT001
    if type(value) is not str or not is_text(value):
        return None
    return value


def _date(value: Any, up: bool, exact: bool) -> Value:  # noqa: ARG001, FBT001
    if type(value) is Ticks:
        return int(value)
    try:
        return date.fromisoformat(value).toordinal() - _EPOCH_DAY
    except (TypeError, ValueError):
        return None


def _microseconds(value: Any) -> int | None:
    if type(value) is Ticks:
        return int(value)
    try:
        moment = datetime.fromisoformat(value)
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return (aware - _EPOCH) // _MICROSECOND
    except (OverflowError, TypeError, ValueError):
        return None


def _timestamp(value: Any, up: bool, exact: bool) -> Value:  # noqa: FBT001
    found = _microseconds(value)
    if found is not None and up and not exact and found % _MILLISECOND == 0:
        return found + _MILLISECOND - 1
    return found


def _decimal(scale: int) -> _Convert:
    quantum = decimal.Decimal((0, (1,), -scale))

    def convert(value: Any, up: bool, exact: bool) -> Value:  # noqa: FBT001
        if isinstance(value, bool):
            return None
        try:
            number = decimal.Decimal(value)
            if not exact and _may_be_rounded(number, scale):
                error = _WIDE.multiply(number.copy_abs(), _FLOAT_ERROR)
                number = _WIDE.add(number, error) if up else _WIDE.subtract(number, error)
            rounding = decimal.ROUND_CEILING if up else decimal.ROUND_FLOOR
            return str(number.quantize(quantum, rounding, _WIDE))
        except (ArithmeticError, TypeError, ValueError):
            return None

    return convert


def _may_be_rounded(number: decimal.Decimal, scale: int) -> bool:
    """Return whether a number may have had more digits before rounding to floating point."""
    if _WIDE.scaleb(number.copy_abs(), scale) < _SAFE_DIGITS:
        return False
    return len(_WIDE.normalize(number).as_tuple().digits) <= _FLOAT_DIGITS


_CONVERTERS: Final[dict[str, _Convert]] = {
    "int8": _integer,
    "int16": _integer,
    "int32": _integer,
    "int64": _integer,
    "float": _single,
    "double": _double,
    "string": _string,
    "date": _date,
}
