"""Rows as Python objects, to be shown to people.

Arrow holds dates and moments that Python does not: before the year 1 and after 9999. Those are
shown as text.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def python_rows(rows: pa.Table) -> list[dict[str, Any]]:
    """The rows as dicts by the names of the columns."""
    columns = [python_values(column) for column in rows.columns]
    return [dict(zip(rows.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def python_values(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column; as text, all of them, where Python lacks one."""
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        if pa.types.is_nested(column.type):
            return [_text(chunk.slice(n, 1)) for chunk in column.chunks for n in range(len(chunk))]
        return list(column.cast(pa.string()).to_pylist())


def _text(value: pa.Array) -> str | None:
    """An array of one value as Arrow prints it, on one line and without brackets around it."""
    if value.null_count:
        return None
    return " ".join(value.to_string(window=100).split()).removeprefix("[ ").removesuffix(" ]")
