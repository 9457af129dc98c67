"""Converts decimals to the nearest floating-point number.

Arrow's own cast multiplies by a power of ten that no double holds, so that 3.55 becomes
3.5500000000000003. Nothing else in Lakeward may cast decimals to floats.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

_EXACT: Final = {pa.float64(): (15, 22), pa.float32(): (7, 10)}
"""The most digits, and the largest power of ten, that every such number holds exactly."""


def to_floating(values: Any, source: pa.DataType, target: pa.DataType) -> Any:
    """Return the nearest floats to decimals of the type `source`.

    `values` may be an array, a chunked array, a scalar or an expression.
    """
    digits, power = _EXACT[target]
    if source.precision > digits or not 0 <= source.scale <= power:
        # A sum is not a bare cast, of which Arrow would convert the bounds of row groups, too.
        return pc.add(values.cast(pa.string()).cast(target), pa.scalar(0.0, target))
    # A quotient of two exact numbers is rounded once.
    ten = pa.scalar(Decimal(10**source.scale), pa.decimal128(source.scale + 1, 0))
    units = pc.multiply(values, ten).cast(pa.int64())
    return pc.divide(units.cast(target), pa.scalar(float(10**source.scale), target))


def cast(values: Any, kind: pa.DataType) -> Any:
    """Cast as Arrow does, but decimals to the nearest floats, also those in nested values."""
    source = values.type
    if pa.types.is_decimal(source) and kind in _EXACT:
        return to_floating(values, source, kind)
    between = _by_text(source, kind)
    return (values if between.equals(source) else values.cast(between)).cast(kind)


def _by_text(source: pa.DataType, kind: pa.DataType) -> pa.DataType:
    """Return the source type with text in place of decimals that become floats."""
    types = pa.types
    if types.is_decimal(source) and kind in _EXACT:
        return pa.string()
    if types.is_struct(source) and types.is_struct(kind):
        wanted = {f.name: f.type for f in kind}
        return pa.struct(
            [f.with_type(_by_text(f.type, wanted.get(f.name, f.type))) for f in source]
        )
    if types.is_map(source) and types.is_map(kind):
        key = source.key_field.with_type(_by_text(source.key_type, kind.key_type))
        return pa.map_(key, source.item_field.with_type(_by_text(source.item_type, kind.item_type)))
    if types.is_list(source) and types.is_list(kind):
        field = source.value_field
        return pa.list_(field.with_type(_by_text(field.type, kind.value_type)))
    return source
