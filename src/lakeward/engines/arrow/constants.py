"""Values of the log as Arrow has them, and back; dates of any year, which Python has not."""

from __future__ import annotations

from typing import cast

import pyarrow as pa

from lakeward.model.types import Primitive, Type, arrow_type
from lakeward.model.values import Value, from_neutral, to_neutral

_DATE = Primitive("date")


def arrow_value(kind: Type, value: Value) -> pa.Scalar:
    """A neutral value as an Arrow scalar of the column's type."""
    if value is None or not _is_temporal(kind):
        return pa.scalar(from_neutral(kind, value), arrow_type(kind))
    if kind == _DATE:
        return pa.scalar(value, pa.int32()).cast(pa.date32())
    found = arrow_type(kind)
    return pa.scalar(value, pa.int64()).cast(pa.timestamp("us", found.tz)).cast(found)


def neutral_values(kind: Type, values: pa.ChunkedArray) -> list[Value]:
    """The values of a column in the log's neutral spelling."""
    if not _is_temporal(kind):
        return [to_neutral(kind, v) for v in values.to_pylist()]
    if kind == _DATE:
        return cast(list[Value], values.cast(pa.int32()).to_pylist())
    exact = values.cast(pa.timestamp("us", values.type.tz))
    return cast(list[Value], exact.cast(pa.int64()).to_pylist())


def _is_temporal(kind: Type) -> bool:
    return isinstance(kind, Primitive) and kind.name.startswith(("date", "timestamp"))
