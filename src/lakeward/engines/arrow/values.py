"""Converts neutral values of the log to and from Arrow, and Arrow to Python values for display."""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa

from lakeward.model.types import Primitive, Type, arrow_type
from lakeward.model.values import Value, from_neutral, to_neutral

_DATE = Primitive("date")


def arrow_value(kind: Type, value: Value) -> pa.Scalar:
    """Return a neutral value as an Arrow scalar of the column's type."""
    if value is None or not _is_temporal(kind):
        return pa.scalar(from_neutral(kind, value), arrow_type(kind))
    if kind == _DATE:
        return pa.scalar(value, pa.int32()).cast(pa.date32())
    found = arrow_type(kind)
    return pa.scalar(value, pa.int64()).cast(pa.timestamp("us", found.tz)).cast(found)


def neutral_values(kind: Type, values: pa.ChunkedArray) -> list[Value]:
    """Return the values of a column in the log's neutral form."""
    if not _is_temporal(kind):
        return [to_neutral(kind, v) for v in values.to_pylist()]
    if kind == _DATE:
        return cast(list[Value], values.cast(pa.int32()).to_pylist())
    exact = values.cast(pa.timestamp("us", values.type.tz))
    return cast(list[Value], exact.cast(pa.int64()).to_pylist())


def _is_temporal(kind: Type) -> bool:
    return isinstance(kind, Primitive) and kind.name.startswith(("date", "timestamp"))


def python_rows(rows: pa.Table) -> list[dict[str, Any]]:
    """Return the rows as dicts by the names of the columns."""
    columns = [python_values(column) for column in rows.columns]
    return [dict(zip(rows.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def python_values(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column; all as text if one is outside Python's range."""
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        if pa.types.is_nested(column.type):
            return [_text(chunk.slice(n, 1)) for chunk in column.chunks for n in range(len(chunk))]
        return list(column.cast(pa.string()).to_pylist())


def _text(value: pa.Array) -> str | None:
    """Return an array of one value as Arrow prints it, on one line and without brackets."""
    if value.null_count:
        return None
    return " ".join(value.to_string(window=100).split()).removeprefix("[ ").removesuffix(" ]")
