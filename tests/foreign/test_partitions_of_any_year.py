"""Partitions on dates before the year 1, which Python's own dates do not reach."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

import lakeward as lw
from tests.foreign.language import DAY
from tests.foreign.values import array, from_arrow

DAYS = [-4_371_587, -719_163, -719_162, 0, 2_932_896]


@pytest.mark.parametrize("kind", ["date", "timestamp", "timestamp_ntz"])
def test_rows_are_found_deleted_and_published(tmp_path: Path, kind: str) -> None:
    values = DAYS if kind == "date" else [d * DAY + 1 for d in DAYS]
    columns = {"id": pa.array(range(10), pa.int64()), "part": array(values * 2, kind)}
    write_deltalake(str(tmp_path / "table"), pa.table(columns), partition_by=["part"])
    expected = [{"id": i, "part": v} for i, v in enumerate(values * 2)]

    with lw.open(tmp_path / "lake") as lake:
        table = lake.adopt("their.table", tmp_path / "table")
        assert sorted(from_arrow(table.to_arrow()), key=lambda r: r["id"]) == expected
        early = table.to_arrow(where="part < '0001-01-01'")["id"].to_pylist()
        assert sorted(early) == [0, 1, 5, 6]
        with lake.transaction() as tx:
            tx.delete("their.table", where="id IN (0, 6)")
            tx.append("their.table", pa.table({n: c.slice(0, 1) for n, c in columns.items()}))
        location = table.location

    left = [r for r in expected if r["id"] != 6]
    theirs = pa.table(
        QueryBuilder().register("t", DeltaTable(location)).execute("SELECT id, part FROM t")
    )
    assert sorted(from_arrow(theirs), key=lambda r: r["id"]) == left


@pytest.mark.parametrize("mode", ["none", "name", "id"])
@pytest.mark.parametrize("kind", ["date", "timestamp", "timestamp_ntz"])
def test_tables_of_our_own_are_read_and_described(tmp_path: Path, kind: str, mode: str) -> None:
    values = DAYS if kind == "date" else [d * DAY + 1 for d in DAYS]
    rows = pa.table({"id": pa.array(range(5), pa.int64()), "part": array(values, kind)})
    expected = [{"id": i, "part": v} for i, v in enumerate(values)]
    with lw.open(tmp_path / "lake") as lake:
        properties = {} if mode == "none" else {"delta.columnMapping.mode": mode}
        table = lake.create("t", rows.schema, partition_by=["part"], properties=properties)
        table.append(rows)
        lake.table("t").append(rows.slice(0, 1))
        found = sorted(from_arrow(table.to_arrow()), key=lambda r: r["id"])
        assert found == [expected[0], *expected]
        for engine in ("datafusion", "duckdb"):
            some = lake.sql("SELECT id FROM t WHERE id < 2", engine=engine).to_arrow()
            assert sorted(some["id"].to_pylist()) == [0, 0, 1]
        column = lake.table("t").statistics().columns["part"]
        assert str(column.minimum).startswith("-9999-01-01")
        assert str(column.maximum).startswith("9999-12-31")
