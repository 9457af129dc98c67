"""Timestamps of milliseconds are compared with finer ones by their values."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.model.types import PRIMITIVES

_AT = datetime(2025, 1, 1, 0, 0, 0, 123_000, tzinfo=UTC)
_FINE = _AT.replace(microsecond=123_456)
_WANTED = {"=": 0, "<>": 1, "<": 1, "<=": 1, ">": 0, ">=": 0, "IS DISTINCT FROM": 1}


@pytest.fixture(params=["timestamp_ms", "timestamp_ms_ntz"])
def kind(request: pytest.FixtureRequest) -> str:
    """A type of milliseconds."""
    found: str = request.param
    return found


@pytest.fixture
def table(lake: lw.Lake, kind: str) -> lw.Table:
    """A table with one row and one file."""
    made = lake.create("s.t", f"id int64, seen {kind}, st struct<seen: {kind}>")
    at = _of(kind, _AT)
    made.append([{"id": 1, "seen": at, "st": {"seen": at}}])
    return made


@pytest.mark.one_pair
@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_constants_below_a_millisecond_are_not_cut(
    lake: lw.Lake, table: lw.Table, kind: str, engine: str
) -> None:
    del table
    word = "TIMESTAMP" if kind.endswith("ntz") else "TIMESTAMPTZ"
    literal = f"{word} '2025-01-01 00:00:00.123456{'' if kind.endswith('ntz') else '+00'}'"
    for column in ("seen", "s.t.st.seen"):
        for op, wanted in _WANTED.items():
            for value, params in ((":t", {"t": _of(kind, _FINE)}), (literal, None)):
                where = f"{column.replace('s.t.st.', 't.st.')} {op} {value}"
                found = lake.sql(f"SELECT id FROM s.t t WHERE {where}", params, engine=engine)
                assert len(found) == wanted, where
    exact = lake.sql("SELECT id FROM s.t WHERE seen = :t", {"t": _of(kind, _AT)}, engine=engine)
    assert len(exact) == 1


@pytest.mark.one_pair
def test_results_and_new_tables_have_the_type_of_the_column(
    lake: lw.Lake, table: lw.Table, kind: str
) -> None:
    found = lake.sql("SELECT seen AS x, id FROM s.t ORDER BY seen").to_arrow()
    assert found.schema.field("x").type == PRIMITIVES[kind]
    assert found["x"].to_pylist() == [_of(kind, _AT)]
    with lake.transaction() as tx:
        tx.sql("CREATE TABLE s.copy AS SELECT seen FROM s.t")
        tx.sql("INSERT INTO s.t SELECT id + 1, max(seen), NULL FROM s.t GROUP BY id")
        tx.sql(
            "MERGE INTO s.t USING (SELECT 9 AS id, max(seen) AS seen FROM s.t) s ON t.id = s.id"
            " WHEN NOT MATCHED THEN INSERT (id, seen) VALUES (s.id, s.seen)"
        )
    assert str(lake.table("s.copy").schema.field("seen").type) == kind
    assert table.to_arrow()["seen"].to_pylist() == [_of(kind, _AT)] * 3


@pytest.mark.one_pair
def test_a_union_with_finer_values_keeps_them(lake: lw.Lake, table: lw.Table, kind: str) -> None:
    del table
    fine = "timestamp_ntz" if kind.endswith("ntz") else "timestamp"
    lake.create("s.fine", f"seen {fine}").append([{"seen": _of(kind, _FINE)}])
    both = lake.sql("SELECT seen FROM s.fine UNION ALL SELECT seen FROM s.t ORDER BY 1").to_arrow()
    assert both["seen"].to_pylist() == [_of(kind, _AT), _of(kind, _FINE)]
    assert pa.types.is_timestamp(both.schema.field(0).type)


@pytest.mark.one_pair
def test_files_are_skipped_by_milliseconds(lake: lw.Lake, table: lw.Table, kind: str) -> None:
    later = _of(kind, _AT.replace(year=2026))
    table.append([{"id": 2, "seen": later, "st": None}])
    for engine in ("datafusion", "duckdb"):
        for op, wanted in (("<", [1]), (">", [2])):
            params: dict[str, Any] = {"t": _of(kind, _FINE)}
            found = lake.sql(f"SELECT id FROM s.t WHERE seen {op} :t", params, engine=engine)
            assert [r["id"] for r in found.to_pylist()] == wanted


def _of(kind: str, moment: datetime) -> datetime:
    return moment.replace(tzinfo=None) if kind.endswith("ntz") else moment
