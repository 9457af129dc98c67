"""Chooses types for copied columns whose own types tables do not have."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

_SIGNED: Final = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
}
_SMALL: Final = (pa.int8(), pa.int16())


def storable(schema: pa.Schema, *, has_small: bool) -> pa.Schema:
    """Return a schema in which every value of the types that tables lack has its place.

    Moments have microseconds; a value with nanoseconds is refused when it is written. Types without
    a wider one stay, and are refused when the table is defined.

    Args:
        schema: The columns of the source.
        has_small: Whether the format has integers of 8 and 16 bits.
    """
    return pa.schema([f.with_type(_type(f.type, has_small=has_small)) for f in schema])


def _type(kind: pa.DataType, *, has_small: bool) -> pa.DataType:
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return pa.timestamp("us", tz=kind.tz)
    signed = _SIGNED.get(kind, kind)
    return pa.int32() if signed in _SMALL and not has_small else signed
