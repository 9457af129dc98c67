"""Values in the log: a neutral JSON form, and order-preserving keys.

A date is days and a timestamp microseconds since 1970, a decimal is a string, bytes are base64;
other values are unchanged. `a <= b` implies `order_key(a) <= order_key(b)`, a signed 64-bit
integer. Only the first eight bytes of strings are in their keys, so different values may share a
key, which can only make a plan read more files.
"""

from __future__ import annotations

import base64
import decimal
import math
import struct
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, TypeAlias

from lakeward.model.types import Decimal, Primitive, Type

Value: TypeAlias = bool | int | float | str | None

MIN_KEY: Final = -(2**63)
MAX_KEY: Final = 2**63 - 1
_NOT_FINITE: Final = "float"
_SINGLE: Final = struct.Struct("f")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_NAIVE: Final = datetime(1970, 1, 1)  # noqa: DTZ001  a timestamp without zone has none
_EPOCH_DATE: Final = date(1970, 1, 1)
_MICROSECOND: Final = timedelta(microseconds=1)
_FLOATS: Final = frozenset({"float", "double"})
_UNCHANGED: Final = frozenset({"boolean", "int8", "int16", "int32", "int64", "string"}) | _FLOATS
"""Types whose Python values are their neutral form."""


def to_neutral(kind: Type, value: Any) -> Value:
    """Return the neutral form of a Python value of this type."""
    if type(kind) is Primitive and kind.name in _UNCHANGED:
        own: Value = value
        return own
    if value is None:
        return None
    if isinstance(kind, Decimal):
        # Never with an exponent, which some readers of partition values refuse.
        return f"{value:f}"
    name = kind.name if isinstance(kind, Primitive) else ""
    if name == "date":
        return (value - _EPOCH_DATE).days
    if name.startswith("timestamp"):
        epoch = _EPOCH if value.tzinfo else _EPOCH_NAIVE
        return (value - epoch) // _MICROSECOND
    if name == "binary":
        return base64.b64encode(value).decode()
    return value


def from_neutral(kind: Type, value: Value) -> Any:
    """Return the Python value of a neutral form."""
    if value is None:
        return None
    if isinstance(kind, Decimal):
        return decimal.Decimal(str(value))
    name = kind.name if isinstance(kind, Primitive) else ""
    if name == "date":
        return _EPOCH_DATE + timedelta(days=int(value))
    if name.startswith("timestamp"):
        epoch = _EPOCH_NAIVE if name.endswith("ntz") else _EPOCH
        return epoch + timedelta(microseconds=int(value))
    if name == "binary":
        return base64.b64decode(str(value))
    return value


def sort_key(kind: Type, value: Value) -> Any:
    """Return a key that orders neutral values of one type as the values themselves."""
    is_text = isinstance(kind, Decimal) or kind == Primitive("binary")
    return from_neutral(kind, value) if is_text else value


def to_json(value: Value) -> Any:
    """Return a neutral value as JSON, which has no NaN and no infinities."""
    if isinstance(value, float) and not math.isfinite(value):
        return {_NOT_FINITE: float_text(value)}
    return value


def from_json(source: Any) -> Value:
    """Return the neutral value for the form of `to_json`."""
    if isinstance(source, dict):
        return float(source[_NOT_FINITE])
    value: Value = source
    return value


def is_text(value: str) -> bool:
    """Return whether a string can be encoded; one with half of a surrogate pair cannot."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def float_text(value: float) -> str:
    """Return a float as Spark writes it: `1.5`, `NaN`, `Infinity`, `-Infinity`."""
    if math.isnan(value):
        return "NaN"
    return repr(value) if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"


def single(value: float) -> float:
    """Return the nearest number that a 32-bit float holds; infinity beyond the largest."""
    try:
        (found,) = _SINGLE.unpack(_SINGLE.pack(value))
    except OverflowError:
        return math.copysign(math.inf, value)
    return float(found)


def single_text(value: float) -> str:
    """Return the shortest text of a 32-bit float: `30.4`, and not `30.399999618530273`."""
    if not math.isfinite(value):
        return float_text(value)
    texts = (f"{value:.{digits}g}" for digits in range(6, 10))
    shortest = next((text for text in texts if single(float(text)) == value), repr(value))
    return repr(float(shortest))


def order_key(kind: Type, value: Value) -> int:
    """Return the order-preserving key of a neutral value that is not null."""
    if type(value) is float and type(kind) is Primitive:
        return _float_key(value)
    if isinstance(value, bool):
        return int(value)
    if isinstance(kind, Decimal):
        return _clamp(int(decimal.Decimal(str(value)).scaleb(kind.scale).to_integral_value()))
    if isinstance(value, int) and not (isinstance(kind, Primitive) and kind.name in _FLOATS):
        return _clamp(value)
    if isinstance(value, str):
        prefix = value.encode("utf-8", "surrogatepass")[:8].ljust(8, b"\0")
        return int.from_bytes(prefix, "big") + MIN_KEY
    if value is None:
        message = "a missing value has no key"
        raise ValueError(message)
    return _float_key(float(value))


def width_level(low: int, high: int) -> int:
    """Return the size class of an interval of keys: the number of bits of its width."""
    return (high - low).bit_length()


def _float_key(value: float) -> int:
    if math.isnan(value):
        return MAX_KEY
    (bits,) = struct.unpack(">q", struct.pack(">d", value + 0.0))
    return bits if bits >= 0 else MIN_KEY - bits


def _clamp(value: int) -> int:
    return value if MIN_KEY <= value <= MAX_KEY else MIN_KEY if value < 0 else MAX_KEY
