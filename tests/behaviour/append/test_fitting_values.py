"""Values that fit their column are taken, whatever their type; the others are named."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import ConstraintViolation, SchemaMismatch
from tests.behaviour.lakes import append, unchanged

pytestmark = pytest.mark.before_the_store

_WALL = datetime(2026, 1, 2, 3, 4, 5)  # noqa: DTZ001  a wall clock has no zone
_ZONED = _WALL.replace(tzinfo=UTC)
_NAN = float("nan")

_VIEWS = pa.ListViewArray.from_arrays([1, 0, 2], [2, 2, 0], pa.array([5, 6, 7]))
_CODES = pa.dictionary(pa.int8(), pa.string())
_LARGE = pa.array([[1], None, [2, 2**40], [3]])
_MAPPED = pa.MapArray.from_arrays([0, 1, 2], pa.array(["a", "b"]), pa.array(["x", None], _CODES))

_FITTING: dict[str, tuple[str, Any, list[Any]]] = {
    "int64 in int32": ("int32", pa.array([1, -(2**31), None]), [1, -(2**31), None]),
    "int64 in double": ("double", pa.array([2**53]), [2.0**53]),
    "int64 in float": ("float", pa.array([3]), [3.0]),
    "uint64 in int8": ("int8", pa.array([7], pa.uint64()), [7]),
    "int64 in decimal": ("decimal(10,2)", pa.array([7]), [Decimal("7.00")]),
    "whole doubles in int64": ("int64", pa.array([1.0, None]), [1, None]),
    "exact doubles in float": ("float", pa.array([0.5, None]), [0.5, None]),
    "whole decimals in int64": ("int64", pa.array([Decimal("5.00")]), [5]),
    "longer decimals": ("decimal(5,2)", pa.array([Decimal("1.2300")]), [Decimal("1.23")]),
    "midnight in date": ("date", pa.array([datetime(2026, 1, 2)]), [date(2026, 1, 2)]),  # noqa: DTZ001
    "lists of int64": ("list<int32>", pa.array([[1], None]), [[1], None]),
    "rows beside a list that does not fit": ("list<int32>", _LARGE[:2], [[1], None]),
    "list views": (
        "list<int32>",
        pa.array([[1], None, []], pa.list_view(pa.int64())),
        [[1], None, []],
    ),
    "list views out of order": ("list<int32>", _VIEWS, [[6, 7], [5, 6], []]),
    "lists of categories": (
        "list<string>",
        pl.Series([["a", None], None, []], dtype=pl.List(pl.Categorical)),
        [["a", None], None, []],
    ),
    "structs of categories": (
        "struct<k: string>",
        pl.Series([{"k": "a"}, None], dtype=pl.Struct({"k": pl.Categorical})),
        [{"k": "a"}, None],
    ),
    "lists of fixed size of categories": (
        "list<string>",
        pa.array([None, ["a", "b"]], pa.list_(_CODES, 2)),
        [None, ["a", "b"]],
    ),
    "maps of categories": ("map<string, string>", _MAPPED[1:], [[("b", None)]]),
    "pandas integers with NaN": ("int32", pd.Series([1.0, _NAN]), [1, None]),
    "pandas nullable integers": ("int32", pd.Series([1, None], dtype="Int64"), [1, None]),
    "pandas categories": ("string", pd.Series(["a", None], dtype="category"), ["a", None]),
    "pandas datetimes": ("timestamp", pd.Series([_WALL]).astype("datetime64[ns]"), [_ZONED]),
    "polars categories": ("string", pl.Series(["a", None], dtype=pl.Categorical), ["a", None]),
    "polars enum": ("string", pl.Series(["a"], dtype=pl.Enum(["a", "b"])), ["a"]),
    "polars datetimes": ("timestamp", pl.Series([_WALL]), [_ZONED]),
    "string views": ("string", pa.array(["a", None], pa.string_view()), ["a", None]),
    "binary views": ("binary", pa.array([b"a", None], pa.binary_view()), [b"a", None]),
    "numpy array in decimal": ("decimal(10,2)", np.array([1]), [Decimal("1.00")]),
    "numpy days": ("date", [np.datetime64("2026-01-02")], [date(2026, 1, 2)]),
    "numpy datetimes": ("timestamp", np.array([_WALL], "datetime64[ns]"), [_ZONED]),
    "numpy datetime scalars": ("timestamp", [np.datetime64(_WALL, "us")], [_ZONED]),
    "numpy scalars in decimal": ("decimal(10,2)", [np.int64(1)], [Decimal("1.00")]),
    "numpy scalars": ("int32", [np.int64(1), np.int8(2)], [1, 2]),
    "numpy booleans": ("boolean", [np.bool_(True)], [True]),
    "python datetimes": ("timestamp", [_WALL], [_ZONED]),
    "arrow datetimes": ("timestamp", pa.array([_WALL]), [_ZONED]),
}


@pytest.mark.formats("delta")  # Iceberg lacks one of the types
@pytest.mark.parametrize("case", _FITTING)
def test_values_that_fit_are_taken(shared_lake: lw.Lake, name: str, case: str) -> None:
    kind, given, expected = _FITTING[case]
    shared_lake.create(name, f"x {kind}")

    append(shared_lake, name, _data(given))

    assert shared_lake.table(name).to_arrow()["x"].to_pylist() == expected


def _data(given: Any) -> Any:
    if isinstance(given, pd.Series):
        return pd.DataFrame({"x": given})
    return pl.DataFrame({"x": given}) if isinstance(given, pl.Series) else {"x": given}


_MISFITS: dict[str, tuple[str, Any, str]] = {
    "arrow": ("int32", pa.table({"x": [1, 2**31]}), "2147483648 in row 1 "),
    "later batch": (
        "int32",
        [pa.record_batch({"x": [1, 2]}), pa.record_batch({"x": [3, 2**40]})],
        "1099511627776 in row 3 ",
    ),
    "pandas": ("int64", pd.DataFrame({"x": [1.0, 1.5]}), "1.5 in row 1 "),
    "pandas objects": ("int64", pd.DataFrame({"x": [1, "b"]}), "'b' in row 1 "),
    "polars": ("double", pl.DataFrame({"x": [1, 2**53 + 1]}), "9007199254740993 in row 1 "),
    "rows": ("int64", [{"x": 1}, {"x": 2**63}], "9223372036854775808 in row 1 "),
    "columns": ("date", {"x": [None, "2026-01-01"]}, "'2026-01-01' in row 1 "),
    "numpy": ("int32", {"x": np.array([1, 2**31])}, "2147483648 in row 1 "),
    "numpy fractions": ("int64", {"x": np.array([1, 1.5])}, "1.5 in row 1 "),
    "numpy time of day": (
        "date",
        {"x": np.array(["2026-01-02T05:00"], "datetime64[ns]")},
        "2026-01-02 05:00:00 in row 0 ",
    ),
    "numpy scalars": ("int32", [{"x": np.int64(2**31)}], "2147483648 in row 0 "),
    "lists": ("list<int32>", pa.table({"x": _LARGE}), "[2, 1099511627776] in row 2 "),
    "times": ("string", pa.table({"x": [None, time(1)]}), "01:00:00 in row 1"),
    "another type": ("int64", pa.table({"x": [None, "a"]}), "'a' in row 1"),
    "nanoseconds": (
        "timestamp",
        pa.table({"x": pa.array([1001], pa.timestamp("ns"))}),
        "1970-01-01 00:00:00.000001001 in row 0 ",
    ),
}


@pytest.mark.parametrize("form", _MISFITS)
def test_a_value_that_does_not_fit_is_named_with_its_row(
    shared_lake: lw.Lake, name: str, form: str
) -> None:
    kind, data, expected = _MISFITS[form]
    shared_lake.create(name, f"x {kind}")

    with unchanged(shared_lake), pytest.raises(SchemaMismatch) as caught:
        append(shared_lake, name, data)

    assert expected in caught.value.what
    assert f"Column x of {name} is {kind}" in caught.value.what
    assert (caught.value.column, caught.value.table) == ("x", name)
    assert caught.value.row == int(expected.split()[-1])


def test_a_missing_value_is_named_with_its_row(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, "x int64 not null")
    batches = [pa.record_batch({"x": [1]}), pa.record_batch({"x": pa.array([2, None])})]

    with unchanged(shared_lake), pytest.raises(ConstraintViolation, match="row 2") as caught:
        append(shared_lake, name, batches)

    assert caught.value.sample == [{"row": 2}]


def test_a_merge_names_the_row_of_a_stream(shared_lake: lw.Lake, name: str, tmp_path: Path) -> None:
    shared_lake.create(name, "x int32")
    batches = [pa.record_batch({"x": [1, 2]}), pa.record_batch({"x": [3, 2**40]})]

    with unchanged(shared_lake), pytest.raises(SchemaMismatch, match="row 3"):
        lake_merge(shared_lake, name, iter(batches))


def lake_merge(lake: lw.Lake, name: str, data: Any) -> None:
    with lake.transaction() as tx:
        tx.merge(name, data, on="x")
