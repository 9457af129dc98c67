"""A column `a.b` beside a struct `a` with a member `b`: their leaves have one path in Parquet."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeward as lw
from lakeward.errors import UnsupportedFeature

_COLUMNS = [
    ("a.b", pa.int64()),
    ("a", pa.struct([("b", pa.int64())])),
    ("x.list.element", pa.string()),
    ("x", pa.list_(pa.string())),
    ("n.f", pa.float64()),
    ("n", pa.struct([("f", pa.float64())])),
]


def _row(n: int) -> dict[str, Any]:
    return {
        "a.b": n,
        "a": {"b": 1000 + n},
        "x.list.element": f"s{n}",
        "x": [f"z{n}"],
        "n.f": math.nan if n == 3 else float(n),
        "n": {"f": 500.0 + n},
    }


@pytest.mark.formats("delta")
@pytest.mark.local
@pytest.mark.parametrize("way", ["append", "bloom", "add_files"])
@pytest.mark.parametrize("turned", [False, True])
def test_rows_are_found_by_the_column_and_not_by_the_member(
    lake: lw.Lake, way: str, turned: bool
) -> None:
    schema = pa.schema(_COLUMNS[::-1] if turned else _COLUMNS)
    rows = pa.Table.from_pylist([_row(n) for n in range(6)], schema=schema)
    properties = {"lakeward.bloom": "a.b,x.list.element"} if way == "bloom" else {}
    table = lake.create("t", schema, properties=properties)
    if way == "add_files":
        pq.write_table(rows, Path(table.location) / "given.parquet")
        with lake.transaction() as tx:
            tx.add_files("t", ["given.parquet"])
    else:
        table.append(rows)
    assert [f.file.rows for f in table.files(where="`a.b` = 2")] == [6]
    assert table.files(where="`a.b` > 50") == []
    for where, found in (
        ("`a.b` = 2", [2]),
        ("`a.b` > 50", []),
        ("`x.list.element` = 's4'", [4]),
        ("`x.list.element` = 'z4'", []),
        ("`n.f` > 4", [3, 5]),
        ("a.b = 1002", [2]),
    ):
        rows = table.to_arrow(where=where)
        assert sorted(rows["a.b"].to_pylist()) == found, where
        assert table.count(where) == len(found), where
    assert table.update(set={"a.b": "9"}, where="`a.b` = 2").value.updated == 1
    assert table.delete(where="`a.b` > 50").value.deleted == 0
    assert table.count() == 6


@pytest.mark.formats("iceberg")
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.b", pa.struct([("b", pa.int64())])),
        ("a.element", pa.list_(pa.int64())),
        ("a.value", pa.map_(pa.string(), pa.int64())),
        ("a.element.c", pa.list_(pa.struct([("c", pa.int64())]))),
    ],
)
def test_iceberg_has_no_two_columns_of_one_path(
    lake: lw.Lake, name: str, kind: pa.DataType
) -> None:
    for columns in ([(name, pa.int64()), ("a", kind)], [("a", kind), (name, pa.int64())]):
        with pytest.raises(UnsupportedFeature, match=name):
            lake.create("t", pa.schema(columns))
    lake.create("t", pa.schema([(name, pa.int64()), ("b", kind)])).append({name: [1], "b": [None]})
