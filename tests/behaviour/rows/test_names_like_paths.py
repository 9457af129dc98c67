"""Columns whose names Arrow reads as paths into nested columns: `.k` and `[0]`."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import ConstraintViolation

_SCHEMA = pa.schema([(".k", pa.int64()), ("[0]", pa.int64()), ("v", pa.string())])


def _rows(*keys: int, v: str = "x") -> list[dict[str, object]]:
    return [{".k": key, "[0]": key % 3, "v": v} for key in keys]


def test_rows_are_sorted_by_them(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, _SCHEMA)
    table.append(_rows(3, 1))
    table.append(_rows(2, 5))

    table.optimize(sort=["[0]", ".k"])

    assert [r[".k"] for r in table.to_arrow().to_pylist()] == [3, 1, 2, 5]
    table.append(_rows(4))
    table.optimize(sort=[".k"])
    assert [r[".k"] for r in table.to_arrow().to_pylist()] == [1, 2, 3, 4, 5]


def test_a_key_of_them_is_unique(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, _SCHEMA, constraints={"key": lw.Unique(".k", "[0]")})
    table.append(_rows(1, 2, 3))

    with pytest.raises(ConstraintViolation):
        table.append(_rows(2))
    with pytest.raises(ConstraintViolation):
        table.append(_rows(7, 7))

    assert table.count() == 3


def test_a_sink_merges_by_them(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, _SCHEMA)
    with shared_lake.sink(name, mode="upsert", key=[".k", "[0]"], writer_id="w") as sink:
        sink.write(pa.Table.from_pylist(_rows(1, 2), _SCHEMA))
        sink.write(pa.Table.from_pylist(_rows(2, v="y"), _SCHEMA))
        sink.commit_epoch(1)

    rows = sorted((r[".k"], r["v"]) for r in table.to_arrow().to_pylist())
    assert rows == [(1, "x"), (2, "y")]
