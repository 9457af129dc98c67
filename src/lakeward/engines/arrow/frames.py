"""Converts Arrow tables to data frames of pandas and Polars, without changing a value."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lakeward.errors import InvalidInput, MissingExtra


def to_pandas(rows: pa.Table) -> Any:
    """Return a pandas DataFrame; integers and booleans with nulls keep their types."""
    try:
        import pandas as pd
    except ImportError as error:
        what = "Rows as a frame of pandas need pandas."
        raise MissingExtra(what, hint="Run: pip install pandas.") from error

    _check_names(rows)
    # pandas has no missing integers but in its nullable types, and would make floats of them;
    # those inside of lists, maps and structs are Python integers.
    kinds = {
        pa.int8(): pd.Int8Dtype(),
        pa.int16(): pd.Int16Dtype(),
        pa.int32(): pd.Int32Dtype(),
        pa.int64(): pd.Int64Dtype(),
        pa.bool_(): pd.BooleanDtype(),
    }
    names = rows.column_names
    gaps = [n for n in names if rows[n].null_count and rows[n].type in kinds]
    frame = rows.select([n for n in names if n not in gaps]).to_pandas(integer_object_nulls=True)
    for name in gaps:
        frame.insert(names.index(name), name, rows[name].to_pandas(types_mapper=kinds.get))
    return frame


def to_polars(rows: pa.Table) -> Any:
    """Return a Polars DataFrame."""
    try:
        import polars as pl
    except ImportError as error:
        what = "Rows as a frame of Polars need polars."
        raise MissingExtra(what, hint="Run: pip install polars.") from error

    _check_names(rows)
    return pl.from_arrow(rows)


def _check_names(rows: pa.Table) -> None:
    names = rows.column_names
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        what = f"The result has several columns {twice!r}, and a frame has one of each name."
        raise InvalidInput(what, hint=f"Write AS in the query: SELECT a.{twice} AS other_name.")
