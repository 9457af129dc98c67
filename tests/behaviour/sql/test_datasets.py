"""Datasets of Arrow and lazy frames of Polars: the same rows as the table, and few files read."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

import lakeward as lw
from tests.behaviour.lakes import append, delete

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
F = pc.field
P = pl.col
FILTERS: list[tuple[pc.Expression, pl.Expr]] = [
    (F("id") > 3, P("id") > 3),
    ((F("id") > 1) & (F("s") == "s5"), (P("id") > 1) & (P("s") == "s5")),
    (F("day") == date(2026, 1, 2), P("day") == date(2026, 1, 2)),
    (F("s").isin(["s1", "s9"]), P("s").is_in(["s1", "s9"])),
    (~F("s").isin(["s1"]), ~P("s").is_in(["s1"])),
    (~(F("id") > 3), ~(P("id") > 3)),
    (F("s").is_null(), P("s").is_null()),
    (~F("s").is_null() & (F("id") != 5), P("s").is_not_null() & (P("id") != 5)),
    ((F("id") == 1) | (F("v") < -5.0), (P("id") == 1) | (P("v") < -5.0)),
    (F("ts") >= pa.scalar(NOON, pa.timestamp("us", "UTC")), P("ts") >= NOON),
    (F("n") == pa.scalar(Decimal("1.50"), pa.decimal128(9, 2)), P("n") == Decimal("1.50")),
    (pc.starts_with(F("s"), "s1"), P("s").str.starts_with("s1")),
    (F("id") + 1 > 5, P("id") + 1 > 5),
]


def _rows(first: int) -> list[dict[str, Any]]:
    return [
        {
            "id": n,
            "s": None if n == 4 else f"s{n}",
            "day": date(2026, 1, 1 + n % 3),
            "ts": NOON,
            "v": math.nan if n == 2 else float(n),
            "n": Decimal(n) / 2,
        }
        for n in range(first, first + 3)
    ]


@pytest.fixture
def table(lake: lw.Lake, table_format: str) -> lw.Table:
    """Six rows in two files, one of which lacks a row that was deleted, and a renamed column."""
    mapped = {"delta.columnMapping.mode": "name"} if table_format == "delta" else {}
    policy = {"merge_on_read": True} if table_format == "delta" else {}
    columns = "id int64 not null, t string, day date, ts timestamp, v double, n decimal(9,2)"
    made = lake.create("t", columns, properties=mapped, policy=policy)
    for first in (0, 3):
        append(
            lake, "t", [{("t" if k == "s" else k): v for k, v in r.items()} for r in _rows(first)]
        )
    with lake.transaction() as tx:
        tx.alter("t").rename_column("t", "s")
    delete(lake, "t", "id = 0")
    return made


def test_required_columns_stay_required(lake: lw.Lake) -> None:
    parts = [pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.list_(pa.string()))]
    kinds = {"id": pa.int64(), "s": pa.struct(parts)}
    required = [pa.field(name, kind, nullable=False) for name, kind in kinds.items()]
    table = lake.create("r", pa.schema([*required, pa.field("n", pa.string())]))
    table.append([{"id": n, "s": {"a": n, "b": ["x"]}, "n": None} for n in range(4)])
    dataset, wanted = table.to_dataset(), ["s", "id"]
    schema = pa.schema([dataset.schema.field(name) for name in wanted])
    for found in (
        dataset.to_table(columns=wanted, filter=F("id") < 3),
        dataset.filter(F("n").is_null() & (F("id") < 3)).to_table(columns=wanted),
        dataset.head(3, columns=wanted, filter=F("id") < 5),
        dataset.scanner(columns=wanted, filter=F("id") < 3).to_table(),
        pa.Table.from_batches(dataset.to_batches(columns=wanted, filter=F("id") < 3)),
        dataset.sort_by("id").head(3, columns=wanted, filter=F("id") < 9),
        dataset.take([0, 1, 2], columns=wanted, filter=F("id") < 3),
    ):
        assert found["id"].to_pylist() == [0, 1, 2]
        assert found.schema.equals(schema)
    # Engines ask for no columns to count rows.
    none = dataset.to_batches(columns=[], filter=F("id") < 3)
    assert sum(batch.num_rows for batch in none) == 3
    assert dataset.to_table(filter=F("id") > 9).schema.equals(dataset.schema)
    assert dataset.to_table(columns={"m": F("id") + 1}, filter=F("id") < 1)["m"].to_pylist() == [1]


def test_filters_and_columns_give_the_rows_of_the_table(table: lw.Table) -> None:
    rows, frame = pa.table(table), table.to_polars()
    dataset = table.to_dataset()
    assert isinstance(dataset, ds.Dataset)
    for arrow, polars in FILTERS:
        kept = rows.filter(arrow)
        found = dataset.to_table(columns=["id", "s"], filter=arrow)
        assert found.to_pylist() == kept.select(["id", "s"]).to_pylist(), arrow
        assert dataset.filter(arrow).count_rows() == kept.num_rows
        lazy = table.scan_polars().filter(polars).select("s", "id").collect()
        assert lazy.equals(frame.filter(polars).select("s", "id")), polars
    assert dataset.head(2).num_rows == table.scan_polars().head(2).collect().height == 2
    double = dataset.to_table(columns={"twice": F("id") * 2})["twice"].to_pylist()
    assert double == [2 * n for n in rows["id"].to_pylist()]
    assert sum(f.to_table().num_rows for f in dataset.get_fragments()) == rows.num_rows
    older = table.at(version=1)
    assert older.to_dataset().count_rows() == older.scan_polars().collect().height == 3


@pytest.mark.local
@pytest.mark.parametrize(
    "read",
    [
        lambda t: t.to_dataset().to_table(filter=F("id") == 4)["id"].to_pylist(),
        lambda t: t.scan_polars().filter(P("id") == 4).collect()["id"].to_list(),
    ],
)
def test_files_that_a_filter_rules_out_are_not_read(
    table: lw.Table, read: Callable[[lw.Table], list[int]]
) -> None:
    kept = {Path(f.path).name for f in table.files(where="id = 4")}
    for path in Path(table.location).rglob("*.parquet"):
        if path.name not in kept:
            path.unlink()
    assert read(table) == [4]
