"""Settings of column mapping beside a protocol that does not list the feature: they mean nothing.

deltalake leaves them so where the table has another feature, and writes files with plain names.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, write_deltalake

import lakeward as lw


def test_columns_are_read_and_written_by_their_names(tmp_path: Path) -> None:
    place = str(tmp_path / "table")
    moments = pa.array([0, 1, 2], pa.int64()).cast(pa.timestamp("us"))
    rows = pa.table({"id": [1, 2, 3], "part": ["a", "b", "b"], "at": moments})
    settings: dict[str, str | None] = {"delta.columnMapping.mode": "name"}
    write_deltalake(place, rows, partition_by=["part"], configuration=settings)
    assert DeltaTable(place).protocol().reader_features == ["timestampNtz"]

    with lw.open(tmp_path / "lake") as lake:
        table = lake.adopt("their.table", place)
        assert table.to_arrow().sort_by("id").equals(rows)
        assert table.to_arrow(where="part = 'b' AND id > 2")["id"].to_pylist() == [3]
        with lake.transaction() as tx:
            tx.delete("their.table", where="id = 2")
            tx.append("their.table", rows.slice(0, 1))

    query = QueryBuilder().register("t", DeltaTable(place))
    left = pa.table(query.execute("SELECT id, part FROM t ORDER BY id"))
    assert left.to_pylist() == [
        {"id": 1, "part": "a"},
        {"id": 1, "part": "a"},
        {"id": 3, "part": "b"},
    ]
