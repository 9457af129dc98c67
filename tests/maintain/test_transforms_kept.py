"""Partition transforms outlive the store: doctor, backup, export and rebuild keep them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import lakeward as lw
from tests.behaviour.lakes import append, delete
from tests.maintain.damage import look, run_sql, the

COLUMNS = {"id": "int64", "ts": "timestamp", "name": "string"}
TERMS = ["day(ts)", "bucket(4, id)", "truncate(2, name)"]
FORMATS = ("delta", "iceberg")


def fill(lake: lw.Lake, formats: Iterable[str] = FORMATS) -> None:
    for kind in formats:
        lake.create(kind, COLUMNS, format=kind, partition_by=TERMS)
        append(lake, kind, rows(0, 6))
        append(lake, kind, rows(6, 3))
        delete(lake, kind, "ts = '2026-01-01 06:00:00'")


def rows(start: int, count: int) -> list[dict[str, Any]]:
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    return [
        {"id": n, "ts": begin + timedelta(hours=6 * n), "name": f"{n:03d} name"}
        for n in range(start, start + count)
    ]


def picture(lake: lw.Lake, name: str) -> Any:
    """All that derived values bear on: the definition, the files, and what a condition finds."""
    table = lake.table(name)
    files = {f.path: (f.partition, f.rows) for f in table.files()}
    pruned = [f.path for f in table.files(where="ts >= '2026-01-02' AND id = 5")]
    assert 0 < len(pruned) < len(files)
    return table.definition, files, pruned


def test_a_lake_with_transforms_is_healthy(lake: lw.Lake) -> None:
    fill(lake, ["delta"])
    assert look(lake).findings == ()


def test_a_missing_index_row_of_a_hidden_value_is_found(lake: lw.Lake) -> None:
    fill(lake)
    assert [f for f in look(lake).findings if f.code == "statistics"] == []
    run_sql(lake, "DELETE FROM lakeward_file_stat WHERE field_id = -1001 AND added_version = 3")
    finding = the(look(lake), "statistics")
    assert finding.table == "iceberg"
    assert "field -1001" in finding.what


def test_a_store_that_is_read_again_knows_them(make_lake: Callable[..., lw.Lake]) -> None:
    first = make_lake()
    fill(first)
    before = {kind: picture(first, kind) for kind in FORMATS}
    first.close()
    again = make_lake()
    assert {kind: picture(again, kind) for kind in FORMATS} == before


def test_a_backup_knows_them(tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake") as lake:
        fill(lake)
        before = {kind: picture(lake, kind) for kind in FORMATS}
        lake.backup(tmp_path / "copy.db")
    for path in (tmp_path / "lake").glob("lakeward.db*"):
        path.unlink()
    (tmp_path / "copy.db").rename(tmp_path / "lake" / "lakeward.db")
    with lw.open(tmp_path / "lake") as lake:
        assert {kind: picture(lake, kind) for kind in FORMATS} == before


@pytest.mark.parametrize("guard", [True, False])
def test_a_rebuilt_store_knows_them_from_the_published_log(tmp_path: Path, guard: bool) -> None:
    with lw.open(tmp_path / "lake") as lake:
        lake.create("delta", COLUMNS, partition_by=TERMS, guard=guard)
        append(lake, "delta", rows(0, 9))
        delete(lake, "delta", "ts = '2026-01-01 06:00:00'")
        before = picture(lake, "delta")
    for path in (tmp_path / "lake").glob("lakeward.db*"):
        path.unlink()
    with lw.open(tmp_path / "lake", take_over=True) as lake:
        assert lake.rebuild().tables == {"delta": 2}
        assert picture(lake, "delta") == before
        (day, *_) = lake.table("delta").definition.derived.values()
        assert day.utc is guard
        append(lake, "delta", rows(9, 1))
        assert look(lake).findings == ()
