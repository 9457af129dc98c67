"""Converts values to and from Iceberg's forms: bounds, partition tuples and JSON defaults."""

from __future__ import annotations

import base64
import decimal
import math
import struct
from datetime import date, datetime
from typing import Any, Final

from lakeward.model.types import Decimal, Primitive, Type
from lakeward.model.values import Value, from_neutral, to_neutral

_EXACT: Final = decimal.Context(prec=128)
"""Holds every decimal of a table; Python's default context rounds to 28 digits."""
_PACKED: Final = {
    "boolean": struct.Struct("<?"),
    "int32": struct.Struct("<i"),
    "int64": struct.Struct("<q"),
    "float": struct.Struct("<f"),
    "double": struct.Struct("<d"),
    "date": struct.Struct("<i"),
    "timestamp": struct.Struct("<q"),
    "timestamp_ntz": struct.Struct("<q"),
    "timestamp_ms": struct.Struct("<q"),
    "timestamp_ms_ntz": struct.Struct("<q"),
}


def to_bytes(kind: Type, value: Value) -> bytes | None:
    """Return a neutral value as the bytes of a bound; None if its type has no such form."""
    if isinstance(kind, Decimal):
        unscaled = int(decimal.Decimal(str(value)).scaleb(kind.scale, _EXACT))
        return unscaled.to_bytes(_width(unscaled), "big", signed=True)
    name = kind.name if isinstance(kind, Primitive) else ""
    if name == "string":
        return str(value).encode()
    if name == "binary":
        return base64.b64decode(str(value))
    packed = _PACKED.get(name)
    return None if packed is None else packed.pack(value)


def from_bytes(kind: Type, data: bytes) -> Value:
    """Return the neutral value of a bound; None if it is not safe to prune by."""
    try:
        return _from_bytes(kind, data)
    except (struct.error, UnicodeDecodeError):
        return None


def to_tuple(kind: Type, value: Value) -> Any:
    """Return a neutral value as a part of a partition tuple."""
    if value is None:
        return None
    if isinstance(kind, Decimal):
        one = decimal.Decimal(1).scaleb(-kind.scale)
        return decimal.Decimal(str(value)).quantize(one, context=_EXACT)
    if isinstance(kind, Primitive) and kind.name == "binary":
        return base64.b64decode(str(value))
    return value


def from_tuple(kind: Type, value: Any) -> Value:
    """Return the neutral value of a part of a partition tuple."""
    if value is None:
        return None
    if isinstance(kind, Decimal):
        return f"{value:f}"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, bool | int | float | str):
        return value
    return str(value)


def from_json(kind: Type, value: Any) -> Value:
    """Return the neutral value of a default in a schema's JSON; raise `ValueError` if invalid."""
    name = kind.name if isinstance(kind, Primitive) else ""
    if name == "binary":
        return base64.b64encode(bytes.fromhex(value)).decode()
    if name == "date":
        return to_neutral(kind, date.fromisoformat(value))
    if name.startswith("timestamp"):
        return to_neutral(kind, datetime.fromisoformat(value))
    if name in ("float", "double"):
        return float(value)
    return str(value) if isinstance(kind, Decimal) else from_tuple(kind, value)


def to_json(kind: Type, value: Value) -> Any:
    """Return a neutral value as a default in a schema's JSON."""
    name = kind.name if isinstance(kind, Primitive) else ""
    if name == "binary":
        return base64.b64decode(str(value)).hex()
    if name == "date" or name.startswith("timestamp"):
        return from_neutral(kind, value).isoformat()
    return value


def _from_bytes(kind: Type, data: bytes) -> Value:
    if isinstance(kind, Decimal):
        unscaled = int.from_bytes(data, "big", signed=True)
        return f"{decimal.Decimal(unscaled).scaleb(-kind.scale, _EXACT):f}"
    name = kind.name if isinstance(kind, Primitive) else ""
    if name == "string":
        return data.decode()
    if name == "binary":
        return base64.b64encode(data).decode()
    # A bound that was written before its column was widened keeps its own width.
    if name == "int64" and len(data) == 4:
        name = "int32"
    if name == "double" and len(data) == 4:
        name = "float"
    packed = _PACKED.get(name)
    if packed is None:
        return None
    (value,) = packed.unpack(data)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _width(unscaled: int) -> int:
    magnitude = unscaled if unscaled >= 0 else ~unscaled
    return magnitude.bit_length() // 8 + 1
