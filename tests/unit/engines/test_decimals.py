"""Decimals as floating-point numbers: always the nearest one."""

from __future__ import annotations

import decimal
import math
import random
from ast import literal_eval
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from sqlglot import parse_one

from lakeward.engines.arrow.decimals import cast, to_floating
from lakeward.engines.arrow.distribution import distribution
from lakeward.engines.arrow.expression import computed, to_arrow
from lakeward.model.expressions import where
from lakeward.model.expressions.names import resolve
from lakeward.model.schema import Schema

_WIDTHS = [(pa.decimal128, 38), (pa.decimal256, 76)]


def _values(choose: random.Random, precision: int, scale: int) -> list[Decimal | None]:
    largest = 10**precision - 1
    units = [choose.randint(-largest, largest) // 10 ** choose.randrange(precision) for _ in "1234"]
    with decimal.localcontext(prec=80):
        return [None, *(Decimal(n).scaleb(-scale) for n in (0, largest, -largest, *units))]


def _column(values: list[Decimal | None], kind: pa.DataType) -> pa.Array:
    """Return an array of decimals; Arrow itself does not take all of a negative scale."""
    with decimal.localcontext(prec=80):
        units = [0 if v is None else int(v.scaleb(kind.scale)) for v in values]
    data = b"".join(n.to_bytes(kind.byte_width, "little", signed=True) for n in units)
    valid = pa.array([v is not None for v in values]).buffers()[1]
    return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(data)])


def _single(value: Decimal) -> float:
    """Return the nearest 32-bit float, without rounding to a double first."""
    near = np.float32(float(value))
    around = [
        np.nextafter(near, np.float32(-math.inf)),
        near,
        np.nextafter(near, np.float32(math.inf)),
    ]
    exact = Fraction(value)
    # Of two equally near ones it is the one with an even last bit.
    return float(
        min(around, key=lambda f: (abs(Fraction(float(f)) - exact), int(f.view("i4")) & 1))
    )


@pytest.mark.parametrize(("decimals", "digits"), _WIDTHS)
def test_every_decimal_becomes_the_nearest_double(decimals: Any, digits: int) -> None:
    choose = random.Random(digits)
    for precision in range(1, digits + 1):
        for scale in {0, precision, choose.randint(0, precision), choose.randint(-20, -1)}:
            given = _values(choose, precision, scale)
            column = _column(given, decimals(precision, scale))
            found = to_floating(column, column.type, pa.float64()).to_pylist()
            assert found == [None if v is None else float(v) for v in given], column.type


@pytest.mark.parametrize(("decimals", "digits"), _WIDTHS)
def test_every_decimal_becomes_the_nearest_float(decimals: Any, digits: int) -> None:
    choose = random.Random(digits)
    for precision in range(1, min(digits, 38) + 1):
        for scale in {0, precision, choose.randint(0, precision)}:
            given = _values(choose, precision, scale)
            column = _column(given, decimals(precision, scale))
            found = to_floating(column, column.type, pa.float32()).to_pylist()
            assert found == [None if v is None else _single(v) for v in given], column.type


@pytest.mark.parametrize("kind", [pa.decimal128(10, 2), pa.decimal128(30, 2)])
def test_slices_chunks_scalars_and_parts_are_converted_alike(kind: pa.DataType) -> None:
    values = [Decimal("0.00"), None, Decimal("3.55"), Decimal("-749106.57")]
    expected = [0.0, None, 3.55, -749106.57]
    column = pa.array(values, kind)
    chunks = pa.chunked_array([column[:1], column[1:]])
    assert to_floating(column[2:], kind, pa.float64()).to_pylist() == expected[2:]
    assert to_floating(chunks, kind, pa.float64()).to_pylist() == expected
    assert to_floating(chunks[:0], kind, pa.float64()).to_pylist() == []
    assert [to_floating(v, kind, pa.float64()).as_py() for v in column] == expected
    assert math.copysign(1, to_floating(column, kind, pa.float64())[0].as_py()) == 1

    lists = pa.chunked_array([pa.array([values, None], pa.list_(kind))])
    assert cast(lists, pa.list_(pa.float64())).to_pylist() == [expected, None]
    rows = pa.array(
        [{"a": {"b": v}, "c": 1} for v in values],
        pa.struct({"a": pa.struct({"b": kind}), "c": pa.int64()}),
    )
    wanted = pa.struct({"a": pa.struct({"b": pa.float64()}), "c": pa.int32()})
    assert [r["a"]["b"] for r in cast(rows, wanted).to_pylist()] == expected
    entries = pa.array([[("k", v)] for v in values], pa.map_(pa.string(), kind))
    found = cast(entries, pa.map_(pa.string(), pa.float64())).to_pylist()
    assert [row[0][1] for row in found] == expected
    assert cast(column, pa.string()).to_pylist()[2:] == ["3.55", "-749106.57"]


def test_expressions_calculate_and_compare_with_the_nearest_double() -> None:
    choose = random.Random(5)
    kinds = {"d": (10, 2), "w": (25, 7), "i": (12, 0)}
    rows = {n: [v for _ in range(200) for v in _values(choose, *k)] for n, k in kinds.items()}
    columns = {n: pa.array(v, pa.decimal128(*kinds[n])) for n, v in rows.items()}
    doubles = {n: [None if v is None else float(v) for v in given] for n, given in rows.items()}
    singles = [None if v is None else _single(v) for v in rows["d"]]
    data = pa.table({**columns, **{f"{n}_f": pa.array(f) for n, f in doubles.items()}})
    wanted = {
        **{f"CAST({n} AS DOUBLE)": f for n, f in doubles.items()},
        **{
            f"CASE WHEN {n} = {n}_f THEN 1 END": [None if f is None else 1 for f in doubles[n]]
            for n in "dw"
        },
        "d / 3": [None if f is None else f / 3 for f in doubles["d"]],
        "w * 1e0": doubles["w"],
        "CAST(CAST(d AS FLOAT) AS DOUBLE)": singles,
    }
    schema = Schema.from_arrow(data.schema)
    bound = {
        text: where.bind_value(parse_one(text), partial(resolve, schema=schema)) for text in wanted
    }
    for text, found in computed(data, bound, "The test").items():
        assert found.to_pylist() == wanted[text], text


def test_distributions_count_by_the_nearest_double() -> None:
    values = pa.chunked_array([pa.array([Decimal("3.55"), Decimal("3.54")], pa.decimal128(10, 2))])
    assert distribution(values, [3.5500000000000003])["shares"] == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("kind", ["decimal128(9, 0)", "decimal128(10, 2)", "decimal128(25, 7)"])
@pytest.mark.parametrize("op", ["=", "<", "<=", ">", ">=", "<>"])
def test_row_groups_are_skipped_only_where_no_row_matches(
    tmp_path: Path, kind: str, op: str
) -> None:
    precision, scale = literal_eval(kind.removeprefix("decimal128"))
    choose = random.Random(kind)
    given = [v for _ in range(20) for v in _values(choose, precision, scale)]
    rows = pa.table({"d": _column(given, pa.decimal128(precision, scale))})
    pq.write_table(rows, tmp_path / "a.parquet", row_group_size=4)
    for value in given[1:40]:
        text = f"CAST(d AS DOUBLE) {op} CAST('{float(value or 0)!r}' AS DOUBLE)"
        condition = to_arrow(where.parse(text, Schema.from_arrow(rows.schema)))
        found = ds.dataset(tmp_path / "a.parquet").to_table(filter=condition)
        assert found.equals(rows.filter(condition)), text
