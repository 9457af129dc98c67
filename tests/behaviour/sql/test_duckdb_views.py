"""Views of `lake.duckdb()`: names that are refused, and files that filters skip."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import UnsupportedFeature
from lakeward.read.scan import read_files


@pytest.mark.parametrize("other", ["main.t", "T", "Main.T"])
def test_tables_that_duckdb_cannot_tell_apart_are_named(lake: lw.Lake, other: str) -> None:
    lake.create("t", "id int64")
    lake.create(other, "id int64")
    with pytest.raises(UnsupportedFeature, match="DuckDB") as caught:
        lake.duckdb()
    assert {"t", other} <= set(str(caught.value).split())


def test_a_view_that_duckdb_refuses_is_an_error_of_the_lake(lake: lw.Lake) -> None:
    lake.create("information_schema.t", "id int64")
    with pytest.raises(UnsupportedFeature, match=r"information_schema\.t"):
        lake.duckdb()


_MANY = 60


@pytest.fixture
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakeward.read.sources._MANY_FILES", _MANY)


def _filled(lake: lw.Lake, name: str, rows: pa.Table, **options: Any) -> lw.Table:
    """Make a table with a file for every 10 rows."""
    made = lake.create(name, like=rows, **options)
    with lake.transaction() as tx:
        for first in range(0, rows.num_rows, 10):
            tx.append(name, rows.slice(first, 10))
    return made


def _many_rows() -> pa.Table:
    count = 10 * _MANY
    return pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "spread": pa.array([(n * 7919) % count for n in range(count)], pa.int64()),
            "day": pa.array([date(2026, 1, 1 + n % 10 // 5) for n in range(count)], pa.date32()),
            "v": pa.array([None if n % 10 == 3 else n / 4 for n in range(count)], pa.float64()),
            "s": pa.array([f"o'{n % 100}" for n in range(count)]),
        }
    )


_QUERIES = (
    "SELECT * FROM {t} WHERE id = 234",
    "SELECT id, s FROM {t} WHERE id BETWEEN 95 AND 104 OR id IN (7, 500)",
    "SELECT count(*), sum(v) FROM {t} WHERE spread = 77",
    "SELECT count(*) FROM {t} WHERE v IS NULL AND id > 500",
    "SELECT count(*), sum(spread) FROM {t}",
    "SELECT a.id, b.s FROM {t} a JOIN {t} b ON a.id = b.spread WHERE b.id = 33",
    "SELECT s, count(*) FROM {t} WHERE day = DATE '2026-01-02' AND s >= 'o''97' GROUP BY s",
    "SELECT id FROM {t} WHERE v > 100 ORDER BY id LIMIT 3",
    "SELECT id FROM {t} WHERE s LIKE 'o''9%' AND id < 100",
    "SELECT count(*) FROM {t} WHERE id = 999999",
)


@pytest.fixture
def files_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many files each read of a dataset opens."""
    found: list[int] = []

    def read(*args: Any, **options: Any) -> pa.RecordBatchReader:
        found.append(len(args[3]))
        return read_files(*args, **options)

    monkeypatch.setattr("lakeward.read.dataset.read_files", read)
    return found


@pytest.mark.usefixtures("few_are_many")
def test_views_of_many_small_files_give_the_rows_of_lake_sql(tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake") as lake:
        _compare(lake)


@pytest.mark.usefixtures("few_are_many")
def test_filters_of_duckdb_skip_files_by_statistics_partitions_and_blooms(
    lake: lw.Lake, files_read: list[int]
) -> None:
    rows = _many_rows()
    _filled(lake, "t", rows)
    lake.create("days", like=rows, partition_by=["day"])
    blooms = lake.create("blooms", like=rows, properties={"lakeward.bloom": "spread"})
    with lake.transaction() as tx:
        for first in range(0, rows.num_rows, 10):
            tx.append("days", rows.slice(first, 10))
            tx.append("blooms", rows.slice(first, 10))
    assert len(blooms.files(where="spread > 70 and spread < 80")) > 20
    assert len(lake.table("t").files()) == _MANY
    cases = (
        ("SELECT id FROM t WHERE id = 234", 1),
        ("SELECT id FROM t WHERE id BETWEEN 95 AND 104", 2),
        ("SELECT count(*) FROM days WHERE day = DATE '2026-01-02'", _MANY),
        ("SELECT id FROM days WHERE day = DATE '2026-01-02' AND id = 239", 1),
        ("SELECT id FROM blooms WHERE spread = 77", 1),
    )
    with lake.duckdb() as connection:
        for text, most in cases:
            files_read.clear()
            assert connection.execute(text).fetchall()
            assert 1 <= sum(files_read) <= most + (3 if "blooms" in text else 0), text


def _compare(lake: lw.Lake) -> None:
    rows = _many_rows()
    older = rows.rename_columns(["id", "mixed", "day", "v", "s"])
    mapping = {"delta.columnMapping.mode": "name"}
    mapped = _filled(lake, "mapped", older, format="delta", properties=mapping)
    _filled(lake, "delta", rows, format="delta")
    _filled(lake, "iceberg", rows, format="iceberg")
    _filled(lake, "days", rows, partition_by=["day"])
    with lake.transaction() as tx:
        tx.alter("mapped").rename_column("mixed", "spread")
    mapped.delete(where="id % 10 = 4")
    with lake.duckdb() as connection:
        for name in ("delta", "iceberg", "mapped", "days"):
            for query in _QUERIES:
                text = query.format(t=name)
                found = connection.execute(text).to_arrow_table()
                wanted = lake.sql(text, engine="duckdb").to_arrow()
                assert sorted(map(repr, found.to_pylist())) == sorted(
                    map(repr, wanted.to_pylist())
                ), text
