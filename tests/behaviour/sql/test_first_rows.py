"""The first rows of an order, by datasets and lazy frames: as of a full sort, from few files."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

import lakeward as lw
from lakeward.errors import InvalidExpression, InvalidInput
from tests.behaviour.lakes import append, delete

_START = "the same beginning, longer than what statistics keep, "
_NAN = math.nan
_FILES = 6
_COLUMNS = "old int32, g int64, s string, v double, n decimal(9,2), st struct<x: int64>"
_DELTA = {"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"}
_ODD: tuple[float | None, ...] = (_NAN, None, -0.0, 0.0, 2.5, -math.inf)


def _rows(file: int) -> list[dict[str, Any]]:
    keys = [file * 5 + n for n in range(5)]
    return [
        {
            "old": k,
            "g": file // 2,
            "s": None if k == 3 else f"{_START}{(7 * k) % 30:02}",
            "v": _ODD[k % 6] if file < 3 else float(k),
            "n": k % 4,
            "st": {"x": k},
        }
        for k in keys
    ]


@pytest.fixture
def table(lake: lw.Lake, table_format: str) -> lw.Table:
    """Six files, in two partitions each: deleted rows, a renamed column, one without bounds."""
    mapped = _DELTA if table_format == "delta" else {}
    own = {"merge_on_read": True} if table_format == "delta" else {}
    marks = {"write.delete.mode": "merge-on-read"} if table_format == "iceberg" else {}
    made = lake.create("t", _COLUMNS, properties=mapped | marks, policy=own, partition_by=["g"])
    for file in range(_FILES):
        lake.set_policy("t", own | ({"stats_columns": ["old"]} if file == 4 else {}))
        append(lake, "t", _rows(file))
    with lake.transaction() as tx:
        tx.alter("t").rename_column("old", "k").change_type("k", "int64")
    delete(lake, "t", "k % 10 = 9")
    return made


SORTINGS: list[Any] = [
    "k",
    [("k", "descending")],
    [("v", "descending"), ("k", "ascending")],
    "v",
    [("v", "ascending", "at_start")],
    [("s", "descending")],
    [("s", "ascending", "at_start"), ("n", "descending")],
    [("n", "descending")],
    [("g", "descending"), ("s", "ascending")],
]
FILTERS = [None, pc.field("st", "x") < 9, pc.field("k") / 7 < 3, pc.field("k") > 1000]


def test_sorted_datasets_have_the_rows_of_pyarrows_own(table: lw.Table) -> None:
    for sorting in SORTINGS:
        _check_dataset(table, sorting)


def _check_dataset(table: lw.Table, sorting: Any) -> None:
    own = ds.InMemoryDataset(pa.table(table))
    found = table.to_dataset().sort_by(sorting)
    assert isinstance(found, ds.Dataset)
    assert found.count_rows() == own.count_rows() == 27
    for kept in FILTERS:
        # A stable sort, unlike that of `own`, whose ties have no order.
        wanted = own.to_table(filter=kept).sort_by(sorting)
        assert repr(found.to_table(filter=kept).to_pylist()) == repr(wanted.to_pylist())
        for count in (0, 1, 3, 10, 100):
            rows = found.head(count, columns=["s", "k"], filter=kept)
            assert rows.equals(wanted.select(["s", "k"]).slice(0, count)), (kept, count)
        if wanted.num_rows > 4:
            taken = found.take([4, 0], filter=kept)
            assert repr(taken.to_pylist()) == repr(wanted.take([4, 0]).to_pylist())
    assert pa.table(found.scanner(columns=["k"]).to_reader()).equals(
        own.to_table(columns=["k", *{"s", "v", "n", "g"}]).sort_by(sorting).select(["k"])
    )
    (part,) = found.get_fragments()
    assert part.to_table(columns=["k"])["k"] == found.to_table()["k"]
    again = found.sort_by("n").to_table()["k"]
    assert again == found.to_table().sort_by("n")["k"]


ORDERS: list[tuple[str | list[str], tuple[list[str], list[bool], list[bool]]]] = [
    ("k", (["k"], [False], [True])),
    ("k DESC", (["k"], [True], [False])),
    ("v desc, k", (["v", "k"], [True, False], [False, True])),
    ("v ASC NULLS FIRST", (["v"], [False], [False])),
    (["s DESC NULLS LAST", "n"], (["s", "n"], [True, False], [True, True])),
    ("`n` DESC, S", (["n", "s"], [True, False], [False, True])),
    ("g", (["g"], [False], [True])),
]


def test_ordered_frames_have_the_rows_of_polars_own_sort(table: lw.Table) -> None:
    for order, known in ORDERS:
        _check_frame(table, order, known)


def _check_frame(
    table: lw.Table, order: str | list[str], known: tuple[list[str], list[bool], list[bool]]
) -> None:
    names, descending, nulls_last = known
    whole = table.to_polars()

    def wanted(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.sort(names, descending=descending, nulls_last=nulls_last, maintain_order=True)

    assert table.scan_polars(order_by=order).collect().equals(wanted(whole))
    for count in (0, 1, 3, 10, 100):
        first = wanted(whole).head(count)
        assert table.scan_polars(order_by=order).head(count).collect().equals(first)
        assert table.scan_polars(order_by=order, limit=count).collect().equals(first)
        limited = table.scan_polars(order_by=order, limit=count)
        assert limited.head(2).select("s").collect().equals(first.head(2).select("s"))
        for kept in (pl.col("n") == 1, pl.col("k") > 5):
            assert limited.filter(kept).collect().equals(first.filter(kept))
            late = table.scan_polars(order_by=order).filter(kept).head(count)
            assert late.collect().equals(wanted(whole.filter(kept)).head(count))
        matching = table.scan_polars(order_by=order, limit=count, where="n = ?", params=[1])
        assert matching.collect().equals(wanted(whole.filter(pl.col("n") == 1)).head(count))


def test_orders_of_an_older_version(table: lw.Table) -> None:
    older = table.at(version=2)
    assert older.scan_polars(order_by="old DESC", limit=2).collect()["old"].to_list() == [9, 8]
    assert older.to_dataset().sort_by([("old", "descending")]).head(1)["old"].to_pylist() == [9]


def test_a_filter_after_the_first_rows_does_not_change_which_they_are(table: lw.Table) -> None:
    first = table.to_polars().head(4)
    for kept in (pl.col("k") > first["k"].max(), pl.col("k") == first["k"][2]):
        found = table.scan_polars().head(4).filter(kept).collect()
        assert found.equals(first.filter(kept))


TOP: list[Callable[[Any], list[int]]] = [
    lambda t: t.to_dataset().sort_by([("k", "descending")]).head(2)["k"].to_pylist(),
    lambda t: t.scan_polars(order_by="k DESC").head(2).collect()["k"].to_list(),
    lambda t: t.scan_polars(order_by="k DESC", limit=2, where="n >= 0").collect()["k"].to_list(),
]


@pytest.mark.local
@pytest.mark.parametrize("read", TOP)
def test_files_that_cannot_have_the_first_rows_are_not_read(
    table: lw.Table, read: Callable[[Any], list[int]]
) -> None:
    kept = {Path(f.path).name for f in table.files(where="k >= 25")}
    for path in Path(table.location).rglob("*.parquet"):
        if path.name not in kept and "delete" not in path.name:
            path.unlink()
    assert read(table) == [28, 27]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"order_by": "x"}, "There is no column 'x'"),
    ({"order_by": "st DESC"}, "it is nested"),
    ({"order_by": "st.x"}, "inside a column"),
    ({"order_by": "k DOWN"}, "no meaning at 'DOWN'"),
    ({"order_by": "k NULLS"}, "no meaning at 'NULLS'"),
    ({"order_by": "k + 1"}, "no meaning at '. 1'"),
    ({"order_by": "(k)"}, "by columns only"),
    ({"order_by": "k,"}, "A column is missing"),
    ({"order_by": ""}, "A column is missing"),
    ({"order_by": []}, "A column is missing"),
    ({"order_by": "`k"}, "left open"),
    ({"order_by": 5}, "list of names"),
    ({"order_by": "k", "limit": -1}, "whole number"),
    ({"order_by": "k", "limit": "3"}, "whole number"),
    ({"limit": 3}, "`order_by` is missing"),
    ({"where": "x = 1"}, "There is no column 'x'"),
]


@pytest.mark.before_the_store
def test_wrong_orders_are_refused_before_anything_is_read(lake: lw.Lake) -> None:
    made = lake.create("t", "k int64, st struct<x: int64>")
    for asked, message in WRONG:
        with pytest.raises((InvalidExpression, InvalidInput), match=message):
            made.scan_polars(**asked)


@pytest.mark.before_the_store
def test_a_dataset_refuses_and_accepts_the_orders_of_pyarrow(lake: lw.Lake) -> None:
    made = lake.create("t", "k int64, st struct<x: int64>")
    made.append([{"k": n, "st": {"x": -n}} for n in range(3)])
    dataset = made.to_dataset()
    for wrong in ("x", [("k", "down")], [("k",)], []):
        with pytest.raises(ValueError, match=r"."):
            dataset.sort_by(wrong)
    by_part = dataset.sort_by([(pc.field("st", "x"), "ascending")])
    assert by_part.to_table()["k"].to_pylist() == [2, 1, 0]
    last = (
        dataset.filter(pc.field("k") < 2).sort_by([("k", "descending")]).filter(pc.field("k") > 0)
    )
    assert last.to_table()["k"].to_pylist() == [1]
